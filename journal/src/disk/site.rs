//! The places at which the journal changes its disk.

macro_rules! sites {
    ($($(#[doc = $doc:expr])* $site:ident => $name:literal,)*) => {
        /// A place in the program at which a file or folder is written, synced, renamed, created
        /// or deleted. One place does one kind of operation.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Site {
            $($(#[doc = $doc])* $site,)*
        }

        impl Site {
            /// Every place.
            pub const ALL: &'static [Site] = &[$(Site::$site,)*];

            /// The place's name, such as `group_write`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Site::$site => $name,)*
                }
            }
        }
    };
}

sites! {
    /// The journal's folder, or one above it, is created.
    FolderCreate => "folder_create",
    /// The folder that holds the journal's folder is synced.
    FolderSync => "folder_sync",
    /// `LOCK` is created.
    LockCreate => "lock_create",
    /// The owner is written into `LOCK`.
    LockWrite => "lock_write",
    /// `IDENTITY` is created under its temporary name.
    IdentityCreate => "identity_create",
    /// `IDENTITY` is written.
    IdentityWrite => "identity_write",
    /// `IDENTITY` is synced.
    IdentitySync => "identity_sync",
    /// `IDENTITY` is renamed into place.
    IdentityRename => "identity_rename",
    /// The folder is synced after that.
    IdentityDirSync => "identity_dir_sync",
    /// A temporary file left by an interrupted creation of `IDENTITY` is deleted.
    IdentityRemove => "identity_remove",
    /// The folder of the records outside, or one above it, is created.
    RecordDirCreate => "record_dir_create",
    /// The record outside is created under its temporary name.
    RecordCreate => "record_create",
    /// The record outside is written.
    RecordWrite => "record_write",
    /// The record outside is synced.
    RecordSync => "record_sync",
    /// The record outside is renamed into place.
    RecordRename => "record_rename",
    /// The folder of the records is synced.
    RecordDirSync => "record_dir_sync",
    /// A temporary file left by an interrupted recording is deleted.
    RecordRemove => "record_remove",
    /// The folder `journal` is created.
    SegmentsDirCreate => "segments_dir_create",
    /// The journal's folder is synced after that.
    SegmentsDirSync => "segments_dir_sync",
    /// A segment is created under its temporary name.
    SegmentCreate => "segment_create",
    /// A segment is filled with zeros.
    SegmentFill => "segment_fill",
    /// A segment's header page is written.
    SegmentHeader => "segment_header",
    /// A segment made ready is synced.
    SegmentSync => "segment_sync",
    /// A segment is renamed into place.
    SegmentRename => "segment_rename",
    /// The folder `journal` is synced after that.
    SegmentDirSync => "segment_dir_sync",
    /// A segment that could not be finished, or a spare of another size, is deleted.
    SegmentRemove => "segment_remove",
    /// A group of batches is written.
    GroupWrite => "group_write",
    /// A group of batches is synced.
    GroupSync => "group_sync",
    /// A group whose write failed is overwritten with zeros.
    GroupZero => "group_zero",
    /// Those zeros are synced.
    GroupZeroSync => "group_zero_sync",
    /// `mark` is created.
    MarkCreate => "mark_create",
    /// A slot of `mark` is overwritten.
    MarkWrite => "mark_write",
    /// `mark` is synced when the journal is closed.
    MarkSync => "mark_sync",
    /// Recovery rewrites what it read above the last provably durable sequence.
    RecoveryRewrite => "recovery_rewrite",
    /// Recovery overwrites the rest of a torn group with zeros.
    RecoveryZero => "recovery_zero",
    /// Recovery fills a segment that is too short with zeros to its full size.
    RecoveryFill => "recovery_fill",
    /// Recovery cuts bytes behind a segment's full size.
    RecoveryCut => "recovery_cut",
    /// Recovery syncs a segment.
    RecoverySync => "recovery_sync",
    /// Recovery syncs the folder `journal`.
    RecoveryDirSync => "recovery_dir_sync",
    /// A folder of blobs is created.
    BlobDirCreate => "blob_dir_create",
    /// A folder of blobs is synced.
    BlobDirSync => "blob_dir_sync",
    /// A blob is created under its temporary name.
    BlobCreate => "blob_create",
    /// A blob is written.
    BlobWrite => "blob_write",
    /// A blob is synced.
    BlobSync => "blob_sync",
    /// A blob is renamed into place.
    BlobRename => "blob_rename",
    /// A temporary file left by an interrupted writing of a blob is deleted.
    BlobRemove => "blob_remove",
    /// The folder `checkpoints` is created.
    CheckpointsDirCreate => "checkpoints_dir_create",
    /// The journal's folder is synced after that.
    CheckpointsDirSync => "checkpoints_dir_sync",
    /// A checkpoint is created under its temporary name.
    CheckpointCreate => "checkpoint_create",
    /// A checkpoint is written.
    CheckpointWrite => "checkpoint_write",
    /// A checkpoint is synced.
    CheckpointSync => "checkpoint_sync",
    /// A checkpoint is renamed into place.
    CheckpointRename => "checkpoint_rename",
    /// The folder `checkpoints` is synced after that.
    CheckpointDirSync => "checkpoint_dir_sync",
    /// A temporary file left by an interrupted writing of a checkpoint is deleted.
    CheckpointRemove => "checkpoint_remove",
    /// The folder of the signing key, or one above it, is created.
    KeyDirCreate => "key_dir_create",
    /// A folder is synced after that, or after a half of the key was renamed into place.
    KeyDirSync => "key_dir_sync",
    /// The lock of those who make a signing key is created.
    KeyLockCreate => "key_lock_create",
    /// A half of the signing key is created under its temporary name.
    KeyCreate => "key_create",
    /// A half of the signing key is written.
    KeyWrite => "key_write",
    /// A half of the signing key is synced.
    KeySync => "key_sync",
    /// A half of the signing key is renamed into place.
    KeyRename => "key_rename",
    /// A temporary file left by an interrupted making of the key is deleted.
    KeyRemove => "key_remove",
    /// The projection's file is created.
    ProjectionCreate => "projection_create",
    /// The projection's file is written.
    ProjectionWrite => "projection_write",
    /// The projection's file is cut or extended.
    ProjectionSetLen => "projection_set_len",
    /// The projection's file is synced.
    ProjectionSync => "projection_sync",
    /// A projection that cannot be used is set aside, to be rebuilt from the log.
    ProjectionRename => "projection_rename",
}

#[cfg(test)]
mod tests {
    use super::Site;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_fail_points_come_in_pairs() {
        let names: BTreeSet<_> = Site::ALL.iter().map(|site| site.name()).collect();
        assert_eq!(names.len(), Site::ALL.len());
        let points = crate::disk::fail_points();
        assert_eq!(points.len(), 2 * Site::ALL.len());
        assert!(points.contains(&"disk::group_write::before".to_owned()));
        assert!(points.contains(&"disk::group_write::after".to_owned()));
    }
}
