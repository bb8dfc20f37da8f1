#!/bin/sh
# Pays one row. The "bank" is a folder, the ledger; a payout is one file in it.
#
# Standard input: the arguments as one JSON object with sorted keys and no spaces, such as
#   {"account":"acct-001","cents":1250,"id":"p-0001"}
# Standard output: {"receipt":"..."}
# Exit codes (see exit_codes in job.toml): 0 paid, 10 not paid and never will be, 75 not paid and
# may be tried again. Anything else, a kill included, means "nobody knows": the reconciler is asked.
#
# To copy this for a target of your own, keep four things:
# 1. The effect is ONE atomic creation under the idempotency key and the attempt: a slot. It exists
#    with all of its content or not at all, and can be created only once. (Here: a hard link. In a
#    database: an insert into a table with a unique index on key and attempt.)
# 2. Attempt n first takes every lower slot of its key as "void". An earlier attempt whose request
#    is still on its way finds its slot taken and does nothing.
# 3. If a lower slot says "run", that attempt has paid. Its receipt is the answer; nothing is paid.
# 4. Only then does attempt n take slot n.
set -u

key=${INTENDANT_IDEMPOTENCY_KEY:?is set by intendant}
attempt=${INTENDANT_ATTEMPT:?is set by intendant}
ledger=${PAYOUTS_LEDGER:-ledger}

# Takes the slot of attempt $1 with the content $2. Succeeds if this call created it, fails if it
# was there already, and ends the script if it can be neither.
take() {
    slot="$ledger/$key.$1"
    # Removed first: a leftover of a killed process may be linked to a slot, and writing to it
    # would change the slot.
    new="$ledger/.new.$key.$1.$$"
    [ ! -e "$new" ] || rm -f "$new"
    # Durable before it becomes visible; a target that answers before that can lose a payout.
    printf '%s\n' "$2" > "$new" && sync "$new" || { rm -f "$new"; exit 75; }
    if ln "$new" "$slot" 2> /dev/null; then
        rm -f "$new"
        sync "$ledger" || exit 1
        return 0
    fi
    rm -f "$new"
    [ -f "$slot" ] && return 1
    echo "the slot $slot can neither be created nor read" >&2
    exit 1
}

# Sets found to what the slot of attempt $1 says. Whatever is neither run nor void ends the script:
# going on with a slot that cannot be read could pay twice.
look() {
    read -r found rest < "$ledger/$key.$1" || exit 1
    case $found in
        run | void) ;;
        *) exit 1 ;;
    esac
}

receipt() {
    echo "{\"receipt\":\"$key-$1\"}"
}

# The arguments are one line, and their text is canonical, so the shell itself can take it apart.
# (With jq at hand, use jq.)
IFS= read -r args
id=${args#*'"id":"'} id=${id%%'"'*}
account=${args#*'"account":"'} account=${account%%'"'*}
cents=${args#*'"cents":'} cents=${cents%%[,\}]*}
case $id,$account,$cents in
    ,* | *,,* | *, | *[!A-Za-z0-9._,-]*) cents= ;;
esac
case $cents in
    "" | *[!0-9]*)
        echo "not a payout: $args" >&2
        exit 10
        ;;
esac
[ -d "$ledger" ] || mkdir -p "$ledger" || exit 75

found=void
lower=1
while [ "$lower" -lt "$attempt" ]; do
    take "$lower" void || look "$lower"
    if [ "$found" = run ]; then
        receipt "$lower"
        exit 0
    fi
    lower=$((lower + 1))
done

take "$attempt" "run $id $account $cents"
look "$attempt"
if [ "$found" = void ]; then
    echo "attempt $attempt was voided before it could pay" >&2
    exit 10
fi
receipt "$attempt"
