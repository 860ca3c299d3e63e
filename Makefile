# malle - one flat Makefile.
#
#   make                    programs in build/bin, libraries in build/lib
#   make check              unit tests (Check)
#   make asan               the unit tests again, under address and
#                           undefined-behaviour sanitizers
#   make fuzz               a short run of every fuzz target (clang)
#   make lint               headers compile alone, scripts, man pages, symbols
#   make install DESTDIR= PREFIX=
#
# A directory is an archive; a program is NAME_main.c plus the archives of the
# directories that it may depend on.

VERSION   = 0.1.0
PREFIX   ?= /usr/local
DESTDIR  ?=
BUILD    ?= build
CC       ?= cc
MPICC    ?= mpicc
CLANG    ?= clang
WERROR   ?= -Werror

SAN        ?=
OPT        ?= -O2 -g
WARN        = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	      -Wpointer-arith -Wwrite-strings -Wvla -Wformat=2 \
	      -Wno-format-nonliteral -Wno-unused-parameter $(WERROR)
CPPFLAGS   += -I. -D_GNU_SOURCE -DMALLE_VERSION='"$(VERSION)"'
CFLAGS     ?= $(OPT)
ALL_CFLAGS  = -std=gnu11 -fPIC -MMD -MP $(WARN) $(CFLAGS) $(SAN)

JANSSON     = $(shell pkg-config --libs jansson)
EVENT       = $(shell pkg-config --libs libevent_core)
CONFUSE     = $(shell pkg-config --libs libconfuse)
SMARTCOLS   = $(shell pkg-config --libs smartcols)
ZLIB        = $(shell pkg-config --libs zlib)
CHECK_LIBS  = $(shell pkg-config --libs check)
OPENBLAS    = $(shell pkg-config --libs openblas)
GLPK        = -lglpk
YAJL        = $(shell pkg-config --libs yajl)

# --- archives, one a directory ---------------------------------------------
DIRS       = proto jpa allocator daemon/slurm daemon/sched daemon agent worker cli
srcs_of    = $(filter-out %_main.c,$(wildcard $(1)/*.c))
objs_of    = $(patsubst %.c,$(BUILD)/obj/%.o,$(call srcs_of,$(1)))

# glue_mpi.c is compiled by mpicc and only linked into libmalle_mpi.
MPI_GLUE   = worker/glue_mpi.c
worker_objs = $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out $(MPI_GLUE),\
		$(call srcs_of,worker)))

# What a program links, users before the used.
L_PROTO    = $(BUILD)/libproto.a $(EVENT) $(JANSSON) -lm
L_ALLOC    = $(BUILD)/liballocator.a $(BUILD)/libjpa.a $(L_PROTO) $(GLPK)
L_DAEMON   = $(BUILD)/libdaemon.a $(BUILD)/libdaemon_sched.a \
	     $(BUILD)/libdaemon_slurm.a $(L_ALLOC) $(CONFUSE) $(ZLIB) $(YAJL)
L_AGENT    = $(BUILD)/libagent.a $(L_PROTO)
L_CLI      = $(BUILD)/libcli.a $(L_PROTO) $(SMARTCOLS)

PROGRAMS   = mallectld malle-agent malle-rsh malle-run malle-status mallectl \
	     malle-alloc malle-hostlist malle-ledger
EXAMPLES   = fashion_mpi
BINS       = $(addprefix $(BUILD)/bin/,$(PROGRAMS))
LIBS       = $(BUILD)/lib/libmalle.so $(BUILD)/lib/libmalle.a \
	     $(BUILD)/lib/libmalle_mpi.a
EXAMPLE_BINS = $(addprefix $(BUILD)/bin/,$(EXAMPLES))

all: $(BINS) $(LIBS) $(EXAMPLE_BINS)

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

define archive
$(BUILD)/lib$(subst /,_,$(1)).a: $(if $(filter worker,$(1)),$(worker_objs),$(call objs_of,$(1)))
	@mkdir -p $$(@D)
	@rm -f $$@
	$(AR) rcs $$@ $$^
endef
$(foreach d,$(DIRS),$(eval $(call archive,$(d))))

# --- programs ---------------------------------------------------------------
link = @mkdir -p $(@D); set -x; $(CC) $(SAN) $(LDFLAGS) -o $@ $^ $(1)

$(BUILD)/bin/mallectld: $(BUILD)/obj/daemon/mallectld_main.o $(filter %.a,$(L_DAEMON))
	$(call link,$(filter-out %.a,$(L_DAEMON)))
$(BUILD)/bin/malle-agent: $(BUILD)/obj/agent/agent_main.o $(filter %.a,$(L_AGENT))
	$(call link,$(filter-out %.a,$(L_AGENT)))
$(BUILD)/bin/malle-rsh: $(BUILD)/obj/agent/rsh_main.o $(filter %.a,$(L_AGENT))
	$(call link,$(filter-out %.a,$(L_AGENT)))
$(BUILD)/bin/malle-run: $(BUILD)/obj/cli/run_main.o $(filter %.a,$(L_CLI))
	$(call link,$(filter-out %.a,$(L_CLI)))
$(BUILD)/bin/malle-status: $(BUILD)/obj/cli/status_main.o $(filter %.a,$(L_CLI))
	$(call link,$(filter-out %.a,$(L_CLI)))
$(BUILD)/bin/mallectl: $(BUILD)/obj/cli/ctl_main.o $(filter %.a,$(L_CLI))
	$(call link,$(filter-out %.a,$(L_CLI)))
$(BUILD)/bin/malle-alloc: $(BUILD)/obj/allocator/alloc_main.o $(filter %.a,$(L_ALLOC))
	$(call link,$(filter-out %.a,$(L_ALLOC)))
$(BUILD)/bin/malle-hostlist: $(BUILD)/obj/proto/hostlist_main.o $(filter %.a,$(L_PROTO))
	$(call link,$(filter-out %.a,$(L_PROTO)))

$(BUILD)/bin/malle-ledger: $(BUILD)/obj/worker/ledger_main.o $(BUILD)/libworker.a
	$(call link,)

# --- libmalle: libc only, and its MPI glue ----------------------------------
$(BUILD)/lib/libmalle.so: $(worker_objs) worker/libmalle.map
	@mkdir -p $(@D)
	$(CC) $(SAN) $(LDFLAGS) -shared -Wl,-soname,libmalle.so.0 \
		-Wl,--version-script=worker/libmalle.map -o $@ $(worker_objs)
# One object with malle_* alone in sight: users' programs have names of their own.
$(BUILD)/lib/libmalle.a: $(worker_objs)
	@mkdir -p $(@D)
	$(LD) -r -o $(BUILD)/obj/libmalle.o $^
	objcopy -w --keep-global-symbol='malle_*' $(BUILD)/obj/libmalle.o
	@rm -f $@
	$(AR) rcs $@ $(BUILD)/obj/libmalle.o
$(BUILD)/lib/libmalle_mpi.a: $(BUILD)/obj/worker/glue_mpi.o
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

MPI_CFLAGS = $(shell pkg-config --cflags ompi-c)
$(BUILD)/obj/worker/glue_mpi.o: WARN += $(addprefix -isystem ,$(patsubst -I%,%,$(filter -I%,$(MPI_CFLAGS))))
$(BUILD)/bin/fashion_mpi: $(wildcard examples/fashion_*.c) $(wildcard examples/*.h worker/*.h) \
		$(BUILD)/lib/libmalle_mpi.a $(BUILD)/lib/libmalle.a
	@mkdir -p $(@D)
	$(MPICC) -std=gnu11 -O3 -g $(WARN) -D_GNU_SOURCE -I. -Iworker \
		-o $@ $(filter %.c,$^) $(filter %.a,$^) \
		$(shell pkg-config --cflags openblas) $(OPENBLAS) $(ZLIB) -lm

# --- tests ------------------------------------------------------------------
# tests/unit/check_NAME.c is a Check program; it may link every archive.
UNIT       = $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/check_*.c))
ALL_ARCH   = $(BUILD)/libdaemon.a $(BUILD)/libdaemon_sched.a \
	     $(BUILD)/libdaemon_slurm.a $(BUILD)/libagent.a \
	     $(BUILD)/libcli.a $(BUILD)/liballocator.a $(BUILD)/libjpa.a \
	     $(BUILD)/libproto.a $(BUILD)/libworker.a

$(BUILD)/tests/check_%: $(BUILD)/obj/tests/unit/check_%.o $(ALL_ARCH)
	@mkdir -p $(@D)
	$(CC) $(SAN) $(LDFLAGS) -o $@ $< -Wl,--start-group $(ALL_ARCH) -Wl,--end-group \
		$(EVENT) $(JANSSON) $(CONFUSE) $(ZLIB) $(SMARTCOLS) $(GLPK) $(YAJL) \
		$(CHECK_LIBS) -lm

# The example's data reader and network, without MPI.
$(BUILD)/tests/check_fashion: examples/check_fashion.c examples/fashion_data.c \
		examples/fashion_net.c $(wildcard examples/*.h)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARN) $(OPT) $(SAN) -D_GNU_SOURCE -I. -o $@ $(filter %.c,$^) \
		$(shell pkg-config --cflags openblas) $(OPENBLAS) $(ZLIB) $(CHECK_LIBS) -lm
UNIT      += $(BUILD)/tests/check_fashion

check: $(UNIT)
	@status=0; for t in $(UNIT); do \
		CK_DEFAULT_TIMEOUT=60 MALLE_BUILD=$(BUILD) $$t || status=1; done; exit $$status

asan:
	$(MAKE) BUILD=$(BUILD)/asan SAN="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer" \
		OPT="-O1 -g" check

# --- fuzz -------------------------------------------------------------------
# tests/fuzz/fuzz_NAME.c has LLVMFuzzerTestOneInput; tests/fuzz/seeds/NAME/ its
# seeds.
FUZZ_S    ?= 10
FUZZERS    = $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SRC   = $(foreach d,proto worker daemon/slurm daemon/sched jpa allocator,$(filter-out $(MPI_GLUE),$(call srcs_of,$(d))))
FUZZ_OBJ   = $(patsubst %.c,$(BUILD)/fuzz/obj/%.o,$(FUZZ_SRC))
$(BUILD)/fuzz/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CLANG) $(CPPFLAGS) -std=gnu11 -g -O1 -MMD -MP -fsanitize=fuzzer-no-link,address,undefined \
		-fno-sanitize-recover=all -c -o $@ $<
$(BUILD)/fuzz/libfuzzed.a: $(FUZZ_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^
$(BUILD)/fuzz/fuzz_%: $(BUILD)/fuzz/obj/tests/fuzz/fuzz_%.o $(BUILD)/fuzz/libfuzzed.a
	$(CLANG) -fsanitize=fuzzer,address,undefined -o $@ $^ $(EVENT) $(JANSSON) \
		$(CONFUSE) $(ZLIB) $(GLPK) $(YAJL) -lm
fuzz: $(FUZZERS)
	@for f in $(FUZZERS); do n=$${f##*/fuzz_}; mkdir -p $(BUILD)/fuzz/corpus/$$n; \
		echo "fuzz $$n $(FUZZ_S) s"; \
		$$f -max_total_time=$(FUZZ_S) -timeout=5 -verbosity=0 -print_final_stats=0 \
			$$(ls tests/fuzz/seeds/$$n.dict 2>/dev/null | sed 's/^/-dict=/') \
			-artifact_prefix=$(BUILD)/fuzz/ $(BUILD)/fuzz/corpus/$$n \
			$$(ls -d tests/fuzz/seeds/$$n 2>/dev/null) \
			>$(BUILD)/fuzz/$$n.log 2>&1 || { cat $(BUILD)/fuzz/$$n.log; exit 1; }; done

# --- the document of the protocol ---------------------------------------------
$(BUILD)/tools/schema_tables: $(BUILD)/obj/tests/tools/schema_tables.o $(BUILD)/obj/proto/schema.o
	@mkdir -p $(@D)
	$(CC) $(SAN) -o $@ $^
protocol: $(BUILD)/tools/schema_tables
	@{ sed '/^<!-- tables: begin/q' proto/PROTOCOL.md; echo; $<; \
		sed -n '/^<!-- tables: end/,$$p' proto/PROTOCOL.md; } >$(BUILD)/PROTOCOL.md
	@mv $(BUILD)/PROTOCOL.md proto/PROTOCOL.md

# --- benches ----------------------------------------------------------------
# Each prints a table and, as its last line, the same as JSON.
bench-alloc: $(BUILD)/bin/malle-alloc
	@MALLE_BUILD=$(BUILD) scripts/bench-alloc
bench-jpa: all
	@MALLE_BUILD=$(BUILD) scripts/bench-jpa
$(BUILD)/tools/slurm_bench: $(BUILD)/obj/tests/tools/slurm_bench.o \
		$(BUILD)/libdaemon_slurm.a $(BUILD)/libproto.a
	@mkdir -p $(@D)
	$(CC) $(SAN) -o $@ $^ $(JANSSON) $(YAJL) $(ZLIB) -lm
bench-slurm: $(BUILD)/tools/slurm_bench
	@MALLE_BUILD=$(BUILD) scripts/bench-slurm

# --- lint -------------------------------------------------------------------
lint:
	@MALLE_BUILD="$(BUILD)" scripts/lint

install: all
	@scripts/install-files "$(BUILD)" "$(DESTDIR)$(PREFIX)"

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

.PHONY: all check asan fuzz bench-alloc bench-jpa bench-slurm protocol lint install clean
.SECONDARY:
