#!/bin/sh
# Finds out whether an attempt in doubt has paid, and makes sure that the answer stays true.
#
# "I see no payout" proves nothing: the request may still be on its way. So this script does not
# look, it claims: it takes the slot of the attempt in doubt as "void", in the very place where the
# payout would be created (see pay.sh). Whoever creates the slot first has won.
# - This script won: the attempt can never pay any more. Answer: never_will.
# - The slot says "run": it has paid. Answer: executed, with the receipt and the evidence.
#
# That is the closure "abort_claim" in job.toml. INTENDANT_ATTEMPT is the attempt in doubt.
# Whatever cannot be told is "unknown"; so is any exit code but 0.
set -u

key=${INTENDANT_IDEMPOTENCY_KEY:?is set by intendant}
attempt=${INTENDANT_ATTEMPT:?is set by intendant}
ledger=${PAYOUTS_LEDGER:-ledger}

unknown() {
    echo "{\"unknown\":\"$1\"}"
    exit 0
}

# Takes the slot of attempt $1 as void, if it is free. The same steps as in pay.sh.
void() {
    slot="$ledger/$key.$1"
    new="$ledger/.void.$key.$1.$$"
    [ ! -e "$new" ] || rm -f "$new"
    printf 'void\n' > "$new" && sync "$new" || { rm -f "$new"; unknown "the ledger is not writable"; }
    if ln "$new" "$slot" 2> /dev/null; then
        rm -f "$new"
        sync "$ledger" || unknown "the ledger cannot be synced"
    else
        rm -f "$new"
        [ -f "$slot" ] || unknown "the slot can neither be created nor read"
    fi
}

[ -d "$ledger" ] || mkdir -p "$ledger" || unknown "there is no ledger"

# Lower attempts are settled already; claiming their slots too costs nothing and makes the answer
# true for all attempts up to this one.
number=1
while [ "$number" -le "$attempt" ]; do
    void "$number"
    read -r found rest < "$ledger/$key.$number" || unknown "a slot cannot be read"
    case $found in
        void) ;;
        run)
            echo "{\"executed\":{\"output\":{\"receipt\":\"$key-$number\"},\"evidence\":{\"slot\":\"$key.$number\"}}}"
            exit 0
            ;;
        *) unknown "a slot holds neither run nor void" ;;
    esac
    number=$((number + 1))
done
echo "{\"never_will\":{\"evidence\":{\"slot\":\"$key.$attempt\"}}}"
