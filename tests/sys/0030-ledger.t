#!/bin/sh
# malle-ledger from outside: exit codes, sentences, and what is on which stream.
bin=${MALLE_BUILD:-build}/bin/malle-ledger
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

ok() {
	echo "ok - $1"
}

not_ok() {
	echo "not ok - $1"
	sed 's/^/# /' "$dir/out" "$dir/err"
	failed=1
}

# expect SENTENCE CODE TEXT ARG...: TEXT is on standard output where CODE is 0
# or samples are counted, else the one line on standard error
expect() {
	sentence=$1 want=$2 text=$3
	shift 3
	"$bin" "$@" >"$dir/out" 2>"$dir/err"
	code=$?
	if [ "$code" -ne "$want" ]; then
		echo "# exit code $code, not $want"
		not_ok "$sentence"
	elif [ -s "$dir/out" ] && [ ! -s "$dir/err" ] && grep -qF -- "$text" "$dir/out"; then
		ok "$sentence"
	elif [ ! -s "$dir/out" ] && [ "$(wc -l <"$dir/err")" -eq 1 ] &&
		grep -q '^malle-ledger: ' "$dir/err" && grep -qF -- "$text" "$dir/err"; then
		ok "$sentence"
	else
		not_ok "$sentence"
	fi
}

# book DIR RANK LINE...: the file of a rank of two, in a job of 4 samples
book() {
	mkdir -p "$dir/$1"
	file=$dir/$1/g000001-r0000$2.ledger
	echo "malle-ledger 1 generation 1 rank $2 world 2 step 0 cursor 0" \
		"samples 4 batch 4 total 4 seed 1 job j1" >"$file"
	shift 2
	for line; do
		echo "$line" >>"$file"
	done
}

book clean 0 "b 0 0 4 2 3 1" "e 1 4 finished"
book clean 1 "b 0 0 4 2 0 2" "e 1 4 finished"
book lost 0 "b 0 0 4 1 3" "e 1 4 finished"
book lost 1 "b 0 0 4 2 0 2" "e 1 4 finished"
book repeated 0 "b 0 0 4 2 3 3" "e 1 4 finished"
book repeated 1 "b 0 0 4 2 0 2" "e 1 4 finished"
book torn 0 "b 0 0 4 2 3 1"
book torn 1 "b 0 0 4 2 0 2"
printf 'b 1 4 4 2 3' >>"$dir/torn/g000001-r00001.ledger"
book damaged 0 "b 0 0 4 2 3 4"
mkdir "$dir/empty"

expect "a clean job exits 0" 0 "lost 0" check "$dir/clean"
expect "a torn last line is legal" 0 '"torn":1' check --json "$dir/torn"
expect "a lost sample exits 65 and is named" 65 \
	'{"what":"lost","id":1,"epoch":0,"step":0,"rank":null}' check --json "$dir/lost"
expect "a repeated sample exits 65 and is named" 65 \
	"repeated: id 3 epoch 0 step 0 rank 0" check "$dir/repeated"
expect "a damaged file exits 65 with its line" 65 \
	"g000001-r00000.ledger:2: byte 13: not a line of a ledger" check "$dir/damaged"
expect "an empty directory exits 66" 66 "there is no ledger in it" check "$dir/empty"
expect "a missing directory exits 66" 66 "No such file" check "$dir/missing"
expect "no arguments exit 64" 64 "arguments"
expect "an unknown verb exits 64" 64 "arguments" audit "$dir/clean"
expect "an unknown option exits 64" 64 "--xml" check --xml "$dir/clean"
expect "--help exits 0" 0 "usage: malle-ledger" --help
expect "--version exits 0" 0 "malle-ledger " --version

s="a report that cannot be written is 74"
: >"$dir/out"
"$bin" check "$dir/clean" >/dev/full 2>"$dir/err"
code=$?
if [ "$code" -eq 74 ]; then
	ok "$s"
else
	not_ok "$s"
fi

s="--json is JSON"
if ! command -v python3 >/dev/null; then
	ok "$s # SKIP no python3"
elif "$bin" check --json "$dir/clean" | python3 -m json.tool >"$dir/out" 2>"$dir/err"; then
	ok "$s"
else
	not_ok "$s"
fi

exit $failed
