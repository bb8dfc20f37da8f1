//! All files and folders of a simulated disk at one moment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::fate::Fate;
use super::file::File;
use super::folder::{Folder, NodeId};

const ROOT: NodeId = 0;

#[derive(Clone, Debug)]
enum Node {
    File(File),
    Folder(Folder),
}

/// Clones share what they do not change.
#[derive(Clone, Debug)]
pub(super) struct World {
    nodes: BTreeMap<NodeId, Arc<Node>>,
    next: NodeId,
}

/// What a power cut decides about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsynced {
    /// The file or folder.
    pub path: PathBuf,
    /// The change, in words.
    pub what: String,
    /// Bytes written; 0 for a name or a length.
    pub bytes: usize,
}

fn error(kind: io::ErrorKind, path: &Path) -> io::Error {
    io::Error::new(kind, path.display().to_string())
}

impl World {
    /// Nothing but the root folder.
    pub(super) fn new() -> Self {
        let root = Arc::new(Node::Folder(Folder::default()));
        Self {
            nodes: BTreeMap::from([(ROOT, root)]),
            next: ROOT + 1,
        }
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[&id]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        let node = self.nodes.get_mut(&id);
        Arc::make_mut(node.expect("nodes that have an id are never removed"))
    }

    fn folder(&self, id: NodeId) -> Option<&Folder> {
        match self.node(id) {
            Node::Folder(folder) => Some(folder),
            Node::File(_) => None,
        }
    }

    fn folder_mut(&mut self, id: NodeId) -> &mut Folder {
        match self.node_mut(id) {
            Node::Folder(folder) => folder,
            Node::File(_) => unreachable!("only called for nodes that were found to be folders"),
        }
    }

    /// The file of an open handle.
    pub(super) fn file(&self, id: NodeId) -> &File {
        match self.node(id) {
            Node::File(file) => file,
            Node::Folder(_) => unreachable!("handles are of files only"),
        }
    }

    pub(super) fn file_mut(&mut self, id: NodeId) -> &mut File {
        match self.node_mut(id) {
            Node::File(file) => file,
            Node::Folder(_) => unreachable!("handles are of files only"),
        }
    }

    /// What bears a path; `None` if nothing does.
    pub(super) fn find(&self, path: &Path) -> io::Result<Option<NodeId>> {
        let mut at = ROOT;
        for component in path.components() {
            match component {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => {
                    let folder = self
                        .folder(at)
                        .ok_or_else(|| error(io::ErrorKind::NotADirectory, path))?;
                    match folder.get(name) {
                        Some(id) => at = id,
                        None => return Ok(None),
                    }
                }
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(error(io::ErrorKind::Unsupported, path));
                }
            }
        }
        Ok(Some(at))
    }

    fn must_find(&self, path: &Path) -> io::Result<NodeId> {
        self.find(path)?
            .ok_or_else(|| error(io::ErrorKind::NotFound, path))
    }

    fn must_find_folder(&self, path: &Path) -> io::Result<NodeId> {
        let id = self.must_find(path)?;
        match self.folder(id) {
            Some(_) => Ok(id),
            None => Err(error(io::ErrorKind::NotADirectory, path)),
        }
    }

    /// The folder in which a path's last name is, and that name.
    fn parent(&self, path: &Path) -> io::Result<(NodeId, OsString)> {
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => Ok((self.must_find_folder(parent)?, name.to_owned())),
            _ => Err(error(io::ErrorKind::InvalidInput, path)),
        }
    }

    pub(super) fn is_folder(&self, id: NodeId) -> bool {
        self.folder(id).is_some()
    }

    pub(super) fn find_file(&self, path: &Path) -> io::Result<NodeId> {
        let id = self.must_find(path)?;
        if self.is_folder(id) {
            return Err(error(io::ErrorKind::IsADirectory, path));
        }
        Ok(id)
    }

    fn create(&mut self, path: &Path, node: Node) -> io::Result<NodeId> {
        let (parent, name) = self.parent(path)?;
        if self.find(path)?.is_some() {
            return Err(error(io::ErrorKind::AlreadyExists, path));
        }
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, Arc::new(node));
        self.folder_mut(parent).put(name, id);
        Ok(id)
    }

    pub(super) fn create_file(&mut self, path: &Path) -> io::Result<NodeId> {
        self.create(path, Node::File(File::default()))
    }

    pub(super) fn create_folder(&mut self, path: &Path) -> io::Result<()> {
        self.create(path, Node::Folder(Folder::default())).map(drop)
    }

    /// Gives a file this content, durably; makes it and the folders above it where they are missing.
    pub(super) fn lay(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        for folder in above {
            if self.find(folder)?.is_none() {
                self.create_folder(folder)?;
            }
        }
        let id = match self.find(path)? {
            Some(_) => self.find_file(path)?,
            None => self.create_file(path)?,
        };
        *self.file_mut(id) = File::holding(bytes);
        Ok(())
    }

    /// Makes all names durable.
    pub(super) fn sync_folders(&mut self) {
        for (_, id) in self.walk() {
            if self.is_folder(id) {
                self.folder_mut(id).sync();
            }
        }
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.find_file(path)?;
        let (parent, name) = self.parent(path)?;
        self.folder_mut(parent).take(name);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.must_find(from)?;
        let (from_parent, from_name) = self.parent(from)?;
        let (to_parent, to_name) = self.parent(to)?;
        if from_parent != to_parent {
            // Nothing of a journal moves from folder to folder; what such a move would be after a
            // power cut would have to be thought about first.
            return Err(error(io::ErrorKind::CrossesDevices, to));
        }
        self.folder_mut(from_parent)
            .rename(from_name, to_name, node);
        Ok(())
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let id = self.must_find_folder(path)?;
        Ok(self
            .folder(id)
            .map(|folder| folder.names().cloned().collect())
            .unwrap_or_default())
    }

    pub(super) fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        let id = self.must_find_folder(path)?;
        self.folder_mut(id).sync();
        Ok(())
    }

    /// Bytes that all files take up that have a name.
    pub(super) fn used_bytes(&self) -> u64 {
        self.walk()
            .filter_map(|(_, id)| match self.node(id) {
                Node::File(file) => Some(file.len()),
                Node::Folder(_) => None,
            })
            .sum()
    }

    /// Everything that has a name now, folders before what is in them, in the order of names.
    pub(super) fn walk(&self) -> impl Iterator<Item = (PathBuf, NodeId)> + use<> {
        let mut open = vec![(PathBuf::from("/"), ROOT)];
        let mut found = Vec::new();
        while let Some((path, id)) = open.pop() {
            if let Some(folder) = self.folder(id) {
                let inside = folder.names().zip(folder.nodes());
                open.extend(inside.map(|(name, node)| (path.join(name), node)));
            }
            found.push((path, id));
        }
        found.sort();
        found.into_iter()
    }

    /// A path for every node, for reports: files whose name is gone bear their number.
    fn paths(&self) -> BTreeMap<NodeId, PathBuf> {
        let mut paths: BTreeMap<NodeId, PathBuf> = self
            .nodes
            .keys()
            .map(|id| (*id, PathBuf::from(format!("removed-{id}"))))
            .collect();
        paths.extend(self.walk().map(|(path, id)| (id, path)));
        paths
    }

    /// What a power cut would decide about, in the order in which [`World::cut`] asks.
    pub(super) fn unsynced(&self) -> Vec<Unsynced> {
        let paths = self.paths();
        let mut all = Vec::new();
        for (id, node) in &self.nodes {
            let path = &paths[id];
            let unsynced = |what: String, bytes: usize| Unsynced {
                path: path.clone(),
                what,
                bytes,
            };
            match &**node {
                Node::File(file) => all.extend(
                    file.open_changes()
                        .into_iter()
                        .map(|(what, bytes)| unsynced(what, bytes)),
                ),
                Node::Folder(folder) => {
                    all.extend(folder.open_changes().map(|what| unsynced(what, 0)));
                }
            }
        }
        all
    }

    /// The disk after a power cut; takes one fate for each of [`World::unsynced`].
    pub(super) fn cut(&self, fates: &mut impl FnMut() -> Fate) -> Self {
        let nodes = self.nodes.iter().map(|(id, node)| {
            let after = match &**node {
                Node::File(file) if file.open_changes().is_empty() => Arc::clone(node),
                Node::File(file) => Arc::new(Node::File(file.cut(fates))),
                Node::Folder(folder) => Arc::new(Node::Folder(folder.cut(fates))),
            };
            (*id, after)
        });
        let mut world = Self {
            nodes: nodes.collect(),
            next: self.next,
        };
        world.forget_nameless();
        world
    }

    /// Files without a name end with the last process that has them open.
    pub(super) fn forget_nameless(&mut self) {
        let named: std::collections::BTreeSet<NodeId> = self.walk().map(|(_, id)| id).collect();
        // A name whose removal is not durable may come back.
        let may_come_back = |world: &Self, id: &NodeId| {
            world
                .nodes
                .values()
                .any(|node| matches!(&**node, Node::Folder(folder) if folder.may_name(*id)))
        };
        let gone: Vec<NodeId> = self
            .nodes
            .keys()
            .filter(|id| !named.contains(id) && !may_come_back(self, id))
            .copied()
            .collect();
        for id in gone {
            self.nodes.remove(&id);
        }
    }

    /// True if no change waits for a sync.
    pub(super) fn all_durable(&self) -> bool {
        self.unsynced().is_empty()
    }
}
