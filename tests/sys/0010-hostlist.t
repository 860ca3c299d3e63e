#!/bin/sh
# malle-hostlist: what it prints, what it refuses, and with which code.
#
# Standard output and standard error go to files, so that each check sees
# exactly what a person would: no partial list beside an error.

bin=${MALLE_BUILD:-build}/bin/malle-hostlist
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

verdict() { # sentence, then a test command
	sentence=$1
	shift
	if "$@"; then
		echo "ok - $sentence"
	else
		echo "not ok - $sentence"
		sed 's/^/#   out: /' "$dir/out"
		sed 's/^/#   err: /' "$dir/err"
		failed=1
	fi
}

run() { # arguments of malle-hostlist; standard input is empty
	"$bin" "$@" <"${input:-/dev/null}" >"$dir/out" 2>"$dir/err"
	code=$?
}

quiet_and_equal() {
	[ "$code" -eq 0 ] && [ ! -s "$dir/err" ] && cmp -s "$dir/out" "$dir/want"
}

prints() { # sentence, expected lines joined by blanks, arguments
	sentence=$1
	want=$2
	shift 2
	: >"$dir/want"
	for word in $want; do
		echo "$word" >>"$dir/want"
	done
	run "$@"
	verdict "$sentence" quiet_and_equal
}

refused_so() {
	[ "$code" -eq "$want" ] && [ ! -s "$dir/out" ] &&
		[ "$(cat "$dir/err")" = "malle-hostlist: $why" ]
}

refuses() { # sentence, exit code, the message, arguments
	sentence=$1
	want=$2
	why=$3
	shift 3
	run "$@"
	verdict "$sentence" refused_so
}

prints "expand prints one name a line" "n1 n2 n3 login" expand 'n[1-3],login'
prints "padding, order and duplicates are kept" "n09 n10 n2 n2" expand 'n[09-10,2,2]'
prints "several groups multiply, the last fastest" "r0n0 r0n1 r1n0 r1n1" \
	expand 'r[0-1]n[0-1]'
prints "text may follow a group" "n1.site n2.site" expand 'n[1-2].site'
prints "commas outside and inside brackets nest" "a b001 b003 c" \
	expand 'a,b[001,003],c'
prints "numbers go up to 2^64-1" "n18446744073709551615" \
	expand 'n[18446744073709551615]'
prints "an empty expression has no names" "" expand ''
prints "several expressions are one list" "n1 n2 a n1" expand 'n[1-2]' a n1
prints "a name that starts with a dash comes after --" "-1 -2" expand -- '-[1-2]'
prints "--set sorts naturally and drops duplicates" "n2 n9 n10" \
	expand --set n10,n9,n2,n9
prints "compress prints one expression" "n[1-3,7]" compress n1 n2 n3 n7
prints "compress keeps order and duplicates" "n[2,1,1]" compress n2 n1 n1
prints "compress keeps padding" "n[08-10,9,010]" compress n08 n09 n10 n9 n010
prints "compress takes expressions too" "n[1-4]" compress 'n[1-2]' n3,n4
prints "compress --set folds a shuffled list" "n[8-11]" compress -s n11 n9 n10 n8 n9
prints "--json has the count and the names" '{"count":2,"hosts":["n1","n2"]}' \
	--json expand 'n[1-2]'
prints "--json has the count and the expression" '{"count":2,"expression":"n[1-2]"}' \
	compress n1 n2 -j
prints "--limit bounds the names, and the bound is allowed" "n1 n2 n3" \
	--limit 3 expand 'n[1-3]'

run compress
echo >"$dir/want"
verdict "no names compress to an empty line" quiet_and_equal

printf 'n[1-2]\n\nx, y\nlast' >"$dir/lines"
input=$dir/lines
prints "- is standard input, line by line" "first n1 n2 x y last" expand first -
prints "compress reads names from standard input" "n[1-2],x,y,last" compress -
printf 'n1\nn[1-2,\n' >"$dir/lines"
refuses "a malformed line is named" 65 \
	"standard input: line 2: column 7: missing ]" expand -
printf 'n1\nn2\0x\n' >"$dir/lines"
refuses "a zero byte is refused" 65 \
	"standard input: line 2: column 3: zero byte in a name" expand -
input=$dir
refuses "standard input that cannot be read is exit 66" 66 \
	"read of standard input: Is a directory" expand -
input=

refuses "a missing bracket is named with its column" 65 \
	"node[01: column 8: missing ]" expand 'node[01'
refuses "empty brackets are malformed" 65 \
	"node[]: column 6: empty brackets" expand 'node[]'
refuses "a comma before the bracket is malformed" 65 \
	"node[01,]: column 9: a number is wanted here" expand 'node[01,]'
refuses "a range that runs backwards is malformed" 65 \
	"node[3-1]: column 8: range runs backwards" expand 'node[3-1]'
refuses "a number over 2^64-1 is malformed" 65 \
	"n[18446744073709551616]: column 3: number is over 2^64-1" \
	expand 'n[18446744073709551616]'
refuses "a fault in the last operand leaves no partial list" 65 \
	"b[: column 3: missing ]" expand 'a[1-9]' 'b['
refuses "compress names the column too" 65 \
	"n2]: column 3: ] without [" compress n1 'n2]'
refuses "a huge expansion is refused at once" 65 \
	"n[0-18446744073709551615]: column 1: more than 65536 names in all" \
	expand 'n[0-18446744073709551615]'
refuses "the limit counts all operands" 65 \
	"b: column 1: more than 2 names in all" -l 2 expand 'a[1-2]' b
refuses "control characters do not reach the terminal" 65 \
	"a?[31m: column 2: control character in a name" expand "$(printf 'a\033[31m')"

refuses "no command is bad usage" 64 \
	"no command: expand or compress; see --help"
refuses "an unknown command is bad usage" 64 \
	"fold: no such command, there are expand and compress" fold a
refuses "expand without an expression is bad usage" 64 \
	"expand: no expression; see --help" expand
refuses "an unknown long option is bad usage" 64 \
	"--frobnicate: unknown or ambiguous option; see --help" --frobnicate expand a
refuses "an unknown short option is bad usage" 64 \
	"-q: unknown option; see --help" -sq expand a
refuses "an option that takes no value is bad usage with one" 64 \
	"--json=yes: the option takes no value" --json=yes expand a
refuses "an option without its value is bad usage" 64 \
	"--limit: a value is missing; see --help" expand a --limit
for value in 0 -1 x 1x '' 99999999999999999999; do
	refuses "a limit of '$value' is bad usage" 64 \
		"--limit $value: not a number of names above 0" --limit "$value" expand a
done

full_said() {
	[ "$code" -eq 74 ] &&
		grep -q '^malle-hostlist: write to standard output: No space' "$dir/err"
}

if [ -c /dev/full ]; then
	: >"$dir/out"
	for arguments in "expand a" "compress a" "--json expand a" "--help" "--version" \
		"expand n[1-60000]"; do
		# shellcheck disable=SC2086
		"$bin" $arguments >/dev/full 2>"$dir/err"
		code=$?
		verdict "a full disk is exit 74: $arguments" full_said
	done
else
	echo "skip: there is no /dev/full to write to"
fi

run --help
verdict "--help says how to use it" grep -q '^usage: malle-hostlist' "$dir/out"
run --version
verdict "--version says which it is" grep -Eq '^malle-hostlist [0-9.]+$' "$dir/out"

exit $failed
