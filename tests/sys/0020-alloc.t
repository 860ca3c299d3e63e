#!/bin/sh
# malle-alloc from outside: exit codes, sentences, and what is on which stream.
bin=${MALLE_BUILD:-build}/bin/malle-alloc
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

# run CODE ARG...: run malle-alloc on standard input, expect this exit code
run() {
	want=$1
	shift
	"$bin" "$@" >"$dir/out" 2>"$dir/err"
	code=$?
	[ "$code" -eq "$want" ] && return 0
	echo "# exit code $code, not $want"
	return 1
}

# one clear line on standard error, nothing on standard output
one_line() {
	[ ! -s "$dir/out" ] && [ "$(wc -l <"$dir/err")" -eq 1 ] &&
		grep -q '^malle-alloc: ' "$dir/err" && grep -qF -- "$1" "$dir/err"
}

# refuses SENTENCE CODE TEXT ARG...: with an empty standard input
refuses() {
	sentence=$1 want=$2 text=$3
	shift 3
	if run "$want" "$@" </dev/null && one_line "$text"; then
		ok "$sentence"
	else
		not_ok "$sentence"
	fi
}

cat >"$dir/good.json" <<'END'
{"version":1,"objective":"speedup","horizon_s":120,
"nodes":[{"name":"n1","job":"j1"},{"name":"n2","job":null}],
"jobs":[{"id":"j1","weight":1,"min_nodes":1,"max_nodes":8,
"curve":[[1,100.0],[2,190.0]],"grow_s":18,"shrink_s":12,"start_s":0}]}
END
# 1.9 * 120 - 18: by hand
plan='"objective":210.0,"bound":210.0,"solve_ms":[0-9.e-]*,"jobs":\[{"id":"j1","nodes":\["n1","n2"\]}\],"idle":\[\]}$'
sed 's/190.0/-190.0/' "$dir/good.json" >"$dir/negative.json"
sed 's/"job":"j1"/"kind":"x"/' "$dir/good.json" >"$dir/kinds.json"
printf '{"version":1,\n"nodes":[' >"$dir/cut.json"

for solver in auto milp dp; do
	s="--solver $solver finds the plan of the contract's example"
	if run 0 --solver "$solver" "$dir/good.json" && [ ! -s "$dir/err" ] &&
		grep -q "^{\"version\":1,\"status\":\"optimal\",.*$plan" "$dir/out"; then
		ok "$s"
	else
		not_ok "$s"
	fi
done

s="greedy says that its plan is not proven"
if run 0 --solver=greedy "$dir/good.json" &&
	grep -q '"status":"feasible","solver":"greedy",.*"objective":210.0,' "$dir/out"; then
	ok "$s"
else
	not_ok "$s"
fi

s="a problem comes from standard input where no file is named"
if run 0 <"$dir/good.json" && grep -q "$plan" "$dir/out"; then
	ok "$s"
else
	not_ok "$s"
fi

s="a problem comes through a pipe in pieces"
if { head -c 40 "$dir/good.json"; tail -c +41 "$dir/good.json"; } |
	run 0 && grep -q "$plan" "$dir/out"; then
	ok "$s"
else
	not_ok "$s"
fi

s="a time limit that is long enough changes nothing"
if run 0 --time-limit 30000 --solver milp "$dir/good.json" && grep -q "$plan" "$dir/out"; then
	ok "$s"
else
	not_ok "$s"
fi

s="a time limit of a microsecond still gives a plan"
if run 0 --time-limit 0.001 --solver milp "$dir/good.json" && grep -q '"jobs":' "$dir/out"; then
	ok "$s"
else
	not_ok "$s"
fi

s="--help goes to standard output"
if run 0 --help && grep -q '^usage: malle-alloc' "$dir/out" && [ ! -s "$dir/err" ]; then
	ok "$s"
else
	not_ok "$s"
fi

s="--version is one line"
if run 0 --version && grep -qx 'malle-alloc [0-9.]*' "$dir/out"; then
	ok "$s"
else
	not_ok "$s"
fi

refuses "an unknown option is 64" 64 "--colour: unknown option" --colour
refuses "an unknown solver is 64" 64 "fast: no such solver" --solver fast "$dir/good.json"
refuses "a solver that is missing is 64" 64 "--solver: needs a value" --solver
refuses "a limit of no number is 64" 64 "soon: not a number of milliseconds" \
	--time-limit soon "$dir/good.json"
refuses "a limit below 0 is 64" 64 "-1: not a number of milliseconds" \
	--time-limit=-1 "$dir/good.json"
refuses "two problems are 64" 64 "one problem at a time" "$dir/good.json" "$dir/good.json"
refuses "a bad problem is 65 with its path and no plan" 65 \
	"$dir/negative.json: jobs[0].curve[1]: rate is negative" "$dir/negative.json"
refuses "a problem that ends early is 65 with its line" 65 "$dir/cut.json: line 2" \
	"$dir/cut.json"
refuses "nothing at all is 65" 65 "standard input: line 1"
refuses "dp on two kinds of node is 65" 65 "one kind of node" --solver dp "$dir/kinds.json"
refuses "a file that is not there is 66" 66 "$dir/none.json: No such file" "$dir/none.json"
refuses "a directory is 66" 66 "$dir: Is a directory" "$dir"

s="a plan that cannot be written is 74"
if [ ! -w /dev/full ]; then
	ok "$s # SKIP no /dev/full"
else
	: >"$dir/out"
	"$bin" "$dir/good.json" >/dev/full 2>"$dir/err"
	code=$?
	if [ "$code" -eq 74 ] && one_line "No space left on device"; then
		ok "$s"
	else
		not_ok "$s"
	fi
fi

s="a closed standard output is 74"
: >"$dir/out"
"$bin" "$dir/good.json" >&- 2>"$dir/err"
code=$?
if [ "$code" -eq 74 ] && one_line "standard output"; then
	ok "$s"
else
	not_ok "$s"
fi

exit $failed
