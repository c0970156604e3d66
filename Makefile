# treeattn: one non-recursive Makefile. `make help` lists the targets.
#   V=1        show the commands           SAN=1     AddressSanitizer + UndefinedBehaviorSanitizer
#   COV=1      instrument for gcov         WERROR=1  warnings are errors
#   BUILD=     where everything goes that is built (default build, build-san, build-cov; CUDA objects: build-cuda)
#   CC=clang   another compiler            OPT= CFLAGS= CPPFLAGS= LDFLAGS= LDLIBS=  added to what the code needs
#   MPI=       without treeattn-mpi (mpirun)
#   NVCC=      without CUDA kernels        ARCH=     -march (default native)
SHELL := /bin/bash
.DEFAULT_GOAL := all
.SUFFIXES:
.DELETE_ON_ERROR:
# where numbers have a comma, awk reads 0.19 as 0
export LC_ALL := C

comma := ,
SUFFIX := $(if $(SAN),-san)$(if $(COV),-cov)
BUILD ?= build$(SUFFIX)
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-8s %s\n' '$(1)' '$(2)';)

ifeq ($(origin CC),default)
CC := gcc
endif
ARCH ?= native
OPT ?= $(if $(COV),-O1 -g,$(if $(SAN),-O2 -g1,-O3 -g))
WARN := -Wall -Wextra -Wconversion -Wno-sign-conversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-missing-field-initializers
SANFLAGS := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
COVFLAGS := $(if $(COV),--coverage)
OPENBLAS_CFLAGS = $(shell pkg-config --cflags openblas 2>/dev/null)
# What the user gives comes first: what correctness needs comes last and wins.
ALL_CPPFLAGS = $(CPPFLAGS) $(OWN_CPPFLAGS) -I. -D_GNU_SOURCE $(OPENBLAS_CFLAGS) $(CUDA_CPPFLAGS)
ALL_CFLAGS = $(OPT) -march=$(ARCH) $(WARN) $(if $(findstring clang,$(CC)),-Wno-pass-failed) $(if $(WERROR),-Werror) $(CFLAGS) -std=gnu11 -fopenmp -fno-fast-math -ffp-contract=off $(SANFLAGS) $(COVFLAGS)
# CARRY=1: libraries are found in lib/ beside the program, also those that libraries need
ALL_LDFLAGS = $(LDFLAGS) -fopenmp $(SANFLAGS) $(COVFLAGS) $(if $(CARRY),-Wl$(comma)--disable-new-dtags$(comma)-rpath$(comma)'$$ORIGIN/lib')
ALL_LDLIBS = $(LDLIBS) -ljansson -lm -ldl $(CUDA_LDLIBS)
GSL_LIBS := -lgsl -lgslcblas

# ---- CUDA: with nvcc from 12.3 on; else one line says so and a stub stands in. NVCC= builds without ----------
# GPU objects do not depend on SAN and COV and are shared by all builds.
NVCC ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc))
NVCC_VERSION = $(if $(NVCC),$(shell $(NVCC) --version 2>/dev/null | sed -nE 's/.* V([0-9.]+).*/\1/p'))
NVCC_AGE = $(shell awk -F. -v version=$(NVCC_VERSION) 'BEGIN { split(version, x); print (x[1] * 100 + x[2] >= 1203) ? "new" : "old" }')
CUDA := $(if $(NVCC),$(filter new,$(NVCC_AGE)))
CUDA_BUILD ?= $(if $(filter /%,$(BUILD)),$(BUILD)/cuda,build-cuda)
CUDA_SKIPPED := $(if $(CUDA),,CUDA kernels are left out: $(if $(NVCC),$(NVCC) is older than 12.3,no nvcc))
CUDA_HOME = $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
# These need no CUDA headers; stubs stand in for the others.
CUDA_PLAIN := $(addprefix kernels/cuda/host/,kernel_cuda.c guard_gpu.c items.c meets.c pairs.c score_layout.c segments.c tiling.c) kernels/cuda/probe/chain.c
CUDA_STUBS := $(wildcard kernels/cuda/stub/*.c kernels/*_stub.c)
CUDA_ONLY := $(filter-out $(CUDA_PLAIN),$(wildcard kernels/cuda/host/*.c kernels/cuda/device/*.c kernels/decode/*_cuda.c))
CUDA_C := $(CUDA_PLAIN) $(if $(CUDA),$(CUDA_ONLY),$(CUDA_STUBS))
CUDA_CU := $(if $(CUDA),$(wildcard kernels/*.cu kernels/cuda/device/*.cu kernels/cuda/probe/*.cu kernels/cuda/device/instantiations/*.cu kernels/decode/*.cu))
CUDA_O := $(CUDA_CU:%.cu=$(CUDA_BUILD)/%.o)
# A100 and H100/H200 as machine code, what comes after as PTX
CUDA_ARCHS := -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]
NVCCFLAGS = -std=c++17 -O3 -I. $(CUDA_ARCHS) -Xcompiler -Wall,-Wextra,-fPIC -Xptxas -v
ifneq ($(CUDA),)
CUDA_CPPFLAGS = -isystem $(CUDA_HOME)/include
CUDA_LDLIBS = -L$(CUDA_HOME)/lib64 -lcudart_static -lrt -lpthread -lstdc++
endif

# ---- MPI: with the headers of Open MPI; else mpirun is told so by the program. MPI= builds without -----------
MPI ?= $(shell pkg-config --exists ompi-c 2>/dev/null && echo ompi-c)

# ---- sources: every .c of a folder belongs to it; nothing to register here --------------------------
REF := $(wildcard ref/*.c)
TRACE_SOURCES := $(wildcard traces/*.c traces/*/*.c)
FIT := sim/fit/least_squares.c # the only file that may use GSL (GPL): linked into program and tests, never into the library
NO_FIT := sim/fit/no_gsl.c # in its place in a program that is given away
ENGINE := $(wildcard sim/engine/*.c) # the library for serving engines, with the planners it needs compiled once more
ENGINE_PLANNERS := $(addprefix ref/,base.c decimal.c dtype_name.c nform.c tree.c) $(addprefix sim/,plan.c plan_merge.c strategy.c vtree.c) \
  $(wildcard sim/strategies/*.c) $(addprefix sim/time/,machine.c tiles.c treeattn_cost.c)
# and the same for a GPU: the functions, and what they are made of
CUDA_ENGINE := $(wildcard kernels/cuda/engine/*.c)
CUDA_ENGINE_PARTS := $(filter-out kernels/decode/% ref/json_text.c,$(CUDA_ENGINE) $(REF) sim/plan.c $(CUDA_PLAIN) $(CUDA_ONLY))
SIM := $(filter-out $(FIT) $(NO_FIT) $(ENGINE),$(wildcard sim/*.c sim/*/*.c))
KERNELS := $(filter-out $(CUDA_STUBS),$(wildcard kernels/*.c kernels/cpu/*.c)) $(filter-out %_cuda.c,$(wildcard kernels/decode/*.c)) $(CUDA_C)
JUDGE := $(wildcard verify/io/*.c verify/cases/*.c verify/compare/*.c verify/report/*.c verify/judge/*.c verify/faults/*.c) $(addprefix verify/sweep/,schedule.c sweep.c wire.c)
HOST := verify/child/host.c # a program of its own, which loads plug-ins and has no oracle
MPI_HOST := verify/sweep/launch.c # what mpirun starts: the only file that may use MPI
LAB_HOST := verify/lab/lab_host.c verify/lab/tile/cta.c # likewise, for the course labs
WINGS := $(filter-out $(JUDGE) $(HOST) $(LAB_HOST) $(MPI_HOST),$(wildcard verify/*/*.c verify/*/*/*.c)) # linked into the program and tests, not into the library
LIB := $(REF) $(TRACE_SOURCES) $(SIM) $(KERNELS) $(JUDGE)
FIGURES := $(filter-out paper-figs/main.c,$(wildcard paper-figs/*.c))
EXAMPLE := tests/example_outside.c # a program of its own, which shows how to use the library
TESTS := tests/run.c tests/shared.c $(foreach d,ref traces sim kernels verify papers,$(wildcard tests/$d/*.c))
STAND_IN := $(wildcard tests/stand_in/*.c)
obj = $(patsubst %.c,$(BUILD)/%.o,$(1))
PROGRAM := $(BUILD)/treeattn
HOST_PROGRAM := $(BUILD)/treeattn-host
LAB_HOST_PROGRAM := $(BUILD)/treeattn-lab-host
MPI_PROGRAM := $(if $(MPI),$(BUILD)/treeattn-mpi)
RUNNER := $(BUILD)/tests/run
FAULTY := $(BUILD)/tests/treeattn-faulty
# A plug-in of the tests, and others that must be refused
PLUGINS := $(addprefix $(BUILD)/tests/plugin/,plugin.so arithmetic.so old.so later.so small.so future.so nameless.so shown.so wrong.so)
# A GPU of host memory: what it defines is not taken from the library
STAND_IN_PROGRAM := $(BUILD)/tests/treeattn-stand-in
STAND_IN_SWEEP := $(BUILD)/tests/stand-in-sweep
DRAWER := $(BUILD)/paper-figs/figures
ENGINE_SO := $(BUILD)/libtreeattn.so.1
CUDA_ENGINE_SO := $(if $(CUDA),$(BUILD)/libtreeattn-cuda.so.1)
# A program elsewhere that links it, as pkg-config says
REPLAY := $(BUILD)/tests/engine/replay
# one that drives a GPU by both libraries, and the same on a GPU of host memory
GPU_ENGINE := $(BUILD)/tests/engine/gpu
GPU_ENGINE_STAND_IN := $(BUILD)/tests/engine/gpu-stand-in

.PHONY: all
all: $(PROGRAM) $(HOST_PROGRAM) $(LAB_HOST_PROGRAM) $(MPI_PROGRAM) $(ENGINE_SO) $(CUDA_ENGINE_SO) ## build build/treeattn, the programs that load code of others for it, and the libraries for engines

# Before the first file: are the packages there, and can BUILD be written?
needs = mkdir -p $(@D) 2>/dev/null || { echo 'make: $(@D) cannot be written: say where to build: make BUILD=/some/folder' >&2; exit 1; }; \
	CC='$(CC)' tests/packages.sh $(1) && touch $@
$(BUILD)/needs-build:
	@$(call needs,BUILD)
$(BUILD)/needs-tests: $(BUILD)/needs-build
	@$(call needs,TEST)

$(BUILD)/tests/%.o: | $(BUILD)/needs-tests
$(BUILD)/%.o: %.c | $(BUILD)/needs-build
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# $(call says,TEXT): the recipe of a file that says TEXT, and is rewritten only when it says something else
says = @mkdir -p $(@D); echo '$(1)' | cmp -s - $@ || echo '$(1)' >$@
.PHONY: FORCE
FORCE:

# The program knows its commit; no other file is compiled again for it.
COMMIT = $(or $(if $(wildcard .git),$(shell git describe --always --dirty 2>/dev/null)),$(shell cat tests/package/commit 2>/dev/null),unknown)
$(BUILD)/commit: FORCE
	$(call says,$(COMMIT))
FUZZ := build-fuzz
$(BUILD)/verify/io/origin.o $(FUZZ)/verify/io/origin.o: OWN_CPPFLAGS := -DTREEATTN_COMMIT='"$(COMMIT)"'
$(BUILD)/verify/io/origin.o: $(BUILD)/commit

# wgmma is of Hopper alone
$(addprefix $(CUDA_BUILD)/kernels/cuda/device/instantiations/,wgmma_%.o wide.o wide_fp8.o wide_meet.o): CUDA_ARCHS := -gencode arch=compute_90a,code=sm_90a

# What ptxas says of registers and spills is kept beside the object, for cuda-static.
$(CUDA_BUILD)/%.o: %.cu | $(CUDA_BUILD)/said
	@mkdir -p $(@D)
	$(call say,NVCC,$<)$(NVCC) $(NVCCFLAGS) -MMD -MF $(@:.o=.d) -c $< -o $@ 2>$(@:.o=.ptxas) || { cat $(@:.o=.ptxas); exit 1; }
-include $(CUDA_O:.o=.d)

$(CUDA_BUILD)/said:
	@mkdir -p $(@D) && touch $@
	@echo 'CUDA kernels: once, 5 to 8 minutes of one core; make -j compiles them side by side, make NVCC= leaves them out'

# The list of objects: a build with and one without CUDA share a folder.
$(BUILD)/objects: FORCE
	$(call says,$(call obj,$(LIB)) $(CUDA_O))

$(BUILD)/libtreeattn.a: $(call obj,$(LIB)) $(CUDA_O) $(BUILD)/objects
	$(call say,AR,$@)rm -f $@ && ar qcs $@ $(filter %.o,$^)

$(PROGRAM): $(call obj,verify/main.c $(WINGS) $(FIT)) $(BUILD)/libtreeattn.a
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $^ $(ALL_LDLIBS) $(GSL_LIBS) -o $@
	$(if $(CUDA_SKIPPED),@echo '$(CUDA_SKIPPED)')

# Only what an engine calls is in it: its own functions are exported, and all that nothing of them reaches is left out. What planners
# free is an arena's (sim/engine/arena.h).
ENGINE_O := $(patsubst %.c,$(BUILD)/engine/%.o,$(ENGINE) $(ENGINE_PLANNERS))
ENGINE_LDFLAGS = -shared -Wl,-soname,libtreeattn.so.1 -Wl,--version-script=sim/engine/treeattn.map -Wl,--gc-sections -Wl,--wrap=free,--wrap=qsort
$(BUILD)/engine/%.o: %.c | $(BUILD)/needs-build
	@mkdir -p $(@D)
	$(call say,CC,$< -fPIC)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(HIDDEN) -fPIC -ffunction-sections -fdata-sections -MMD -MP -c $< -o $@
$(filter-out %/sim/engine/engine.o,$(ENGINE_O)): HIDDEN := -fvisibility=hidden
$(ENGINE_SO): $(ENGINE_O) sim/engine/treeattn.map
	$(call say,LINK,$@)$(CC) $(LDFLAGS) $(SANFLAGS) $(COVFLAGS) $(ENGINE_LDFLAGS) $(if $(SANFLAGS),,-Wl$(comma)-z$(comma)defs) $(filter %.o,$^) -lm -o $@
-include $(ENGINE_O:.o=.d)

CUDA_ENGINE_O := $(patsubst %.c,$(BUILD)/engine/%.o,$(CUDA_ENGINE_PARTS))
$(call obj,$(CUDA_ENGINE)) $(CUDA_ENGINE:%.c=$(BUILD)/engine/%.o): OWN_CPPFLAGS := -Isim/engine
$(filter-out %/treeattn_cuda.o $(ENGINE_O),$(CUDA_ENGINE_O)): HIDDEN := -fvisibility=hidden
$(BUILD)/libtreeattn-cuda.so.1: $(CUDA_ENGINE_O) $(CUDA_O) sim/engine/treeattn.map
	$(call say,LINK,$@)$(CC) $(LDFLAGS) -fopenmp $(SANFLAGS) $(COVFLAGS) -shared -Wl$(comma)-soname$(comma)$(@F) -Wl$(comma)--version-script=sim/engine/treeattn.map \
	  -Wl$(comma)--gc-sections $(if $(SANFLAGS),,-Wl$(comma)-z$(comma)defs) $(filter %.o,$^) $(CUDA_LDLIBS) -ldl -lm -o $@
-include $(CUDA_ENGINE_O:.o=.d)

HOST_SHARED_O := $(call obj,$(addprefix verify/child/,answer.c fence.c tensors.c) $(addprefix ref/,base.c memory.c dtype.c dtype_name.c json_text.c))
$(HOST_PROGRAM): $(call obj,$(HOST)) $(HOST_SHARED_O)
$(LAB_HOST_PROGRAM): $(call obj,$(LAB_HOST)) $(HOST_SHARED_O)
$(HOST_PROGRAM) $(LAB_HOST_PROGRAM):
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) -ljansson -ldl -lm -o $@

$(BUILD)/verify/sweep/launch.o: OWN_CPPFLAGS = $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(MPI)))
$(BUILD)/treeattn-mpi: $(call obj,$(MPI_HOST) verify/sweep/schedule.c verify/sweep/wire.c ref/base.c ref/memory.c)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) $(shell pkg-config --libs $(MPI)) -o $@

$(DRAWER): $(call obj,$(FIGURES)) $(BUILD)/paper-figs/main.o $(call obj,$(FIT) $(addprefix ref/,base.c memory.c csv.c decimal.c file.c))
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $^ $(GSL_LIBS) -lm -o $@

$(FAULTY): $(call obj,verify/main.c $(addprefix tests/verify/,faulty.c stateful.c) $(WINGS) $(FIT)) $(BUILD)/libtreeattn.a
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) -Wl$(comma)--wrap=kernel_find $^ $(ALL_LDLIBS) $(GSL_LIBS) -o $@

# As an archive: only what tests call is linked, so that nothing pulls a GPU's host code in beside tests/verify/fake_gpu.c.
$(BUILD)/libwings.a: $(call obj,$(WINGS))
	$(call say,AR,$@)rm -f $@ && ar qcs $@ $^

$(RUNNER): $(call obj,$(TESTS) $(FIGURES)) $(BUILD)/libwings.a $(call obj,$(FIT)) $(BUILD)/libtreeattn.a | $(FAULTY) $(HOST_PROGRAM) $(LAB_HOST_PROGRAM) $(PLUGINS) $(REPLAY)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) -Wl$(comma)--wrap=kernel_find $^ $$(pkg-config --libs check mpfr gmp) $(ALL_LDLIBS) $(GSL_LIBS) -o $@

$(BUILD)/tests/plugin/old.so: OWN_CPPFLAGS := -DPLUGIN_OLD
$(BUILD)/tests/plugin/later.so: OWN_CPPFLAGS := -DPLUGIN_LATER
$(BUILD)/tests/plugin/small.so: OWN_CPPFLAGS := -DPLUGIN_SMALL
$(BUILD)/tests/plugin/future.so: OWN_CPPFLAGS := -DPLUGIN_FUTURE
$(BUILD)/tests/plugin/nameless.so: OWN_CPPFLAGS := -DPLUGIN_NAMELESS
# The one that a README shows is compiled as it stands there, with the merge that stands below it.
$(BUILD)/tests/plugin/shown.c: verify/child/README.md
	@mkdir -p $(@D)
	$(Q){ printf '#include "treeattn_plugin.h"\n#include <math.h>\n'; sed -n '/^    static int merge/,/^    }/s/^    //p' $<; \
	sed -n '/^    #include "treeattn_plugin.h"/,/^    gcc/s/^    //p' $< | grep -v ^gcc | sed 's/.run = run/&, .merge = merge/'; } >$@
$(BUILD)/tests/plugin/shown.so: $(BUILD)/tests/plugin/shown.c verify/child/treeattn_plugin.h | $(BUILD)/needs-tests
	$(call say,CC,$<)$(CC) -I verify/child -O2 -Wall -Wextra -Werror -shared -fPIC $< -o $@ -lm
$(BUILD)/tests/plugin/arithmetic.so: tests/plugin/arithmetic.c tests/plugin/narrow.h
$(BUILD)/tests/plugin/wrong.so: tests/plugin/wrong.c tests/plugin/wrong.def tests/plugin/narrow.h
$(filter-out %/shown.so %/arithmetic.so %/wrong.so,$(PLUGINS)): tests/plugin/plugin.c tests/plugin/narrow.h
$(filter-out %/shown.so,$(PLUGINS)): verify/child/treeattn_plugin.h | $(BUILD)/needs-tests
	@mkdir -p $(@D)
	$(call say,CC,$(filter %.c,$^))$(CC) $(OWN_CPPFLAGS) -I. -O2 -Wall -Wextra -shared -fPIC $(filter %.c,$^) -o $@ -lm

# The strategy that a README shows is compiled as it stands there.
$(BUILD)/tests/per_node.c: $(wildcard */README.md */*/README.md)
	@mkdir -p $(@D)
	$(Q)cat $^ | sed -n '/^    \/\* per_node\.c/,/^    };$$/s/^    //p' >$@
$(BUILD)/tests/verify/check_readme.o: OWN_CPPFLAGS := -I$(BUILD)
$(BUILD)/tests/verify/check_readme.o: $(BUILD)/tests/per_node.c

$(call obj,$(STAND_IN)): OPT := -O3 -g # under sanitizers, too
ifneq ($(SAN),) # what is no library takes longer to compile than to run
$(call obj,$(TESTS) $(WINGS) $(FIGURES) verify/main.c paper-figs/main.c): OPT := -O1 -g1
endif
STAND_IN_O := $(call obj,$(filter-out %/sweep.c,$(STAND_IN)) $(WINGS) $(FIT)) $(BUILD)/libtreeattn.a
$(STAND_IN_PROGRAM): $(BUILD)/verify/main.o $(STAND_IN_O)
$(STAND_IN_SWEEP): $(BUILD)/tests/stand_in/sweep.o $(STAND_IN_O)
$(STAND_IN_PROGRAM) $(STAND_IN_SWEEP):
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) -rdynamic -Wl$(comma)--wrap=cuda_library $^ $(filter-out -lcudart_static,$(ALL_LDLIBS)) $(GSL_LIBS) -o $@

$(BUILD)/tests/engine/gpu.o: OWN_CPPFLAGS := -Isim/engine -Ikernels/cuda/engine
$(GPU_ENGINE_STAND_IN): $(call obj,tests/engine/gpu.c $(CUDA_ENGINE)) $(STAND_IN_O) $(ENGINE_SO)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) -rdynamic -Wl$(comma)--wrap=cuda_library $^ -Wl$(comma)-rpath$(comma)'$$ORIGIN/../..' $(filter-out -lcudart_static,$(ALL_LDLIBS)) $(GSL_LIBS) -o $@

-include $(patsubst %.o,%.d,$(call obj,$(LIB) $(CUDA_STUBS) $(WINGS) $(HOST) $(LAB_HOST) $(MPI_HOST) $(FIT) $(FIGURES) paper-figs/main.c verify/main.c $(TESTS) $(STAND_IN)))

# trace data is assembled into the program, and what students include
$(BUILD)/verify/lab/session.o: tests/labs/include/lab.h
$(BUILD)/verify/lab/readmes.o: $(wildcard tests/labs/L*/README.md)
$(BUILD)/traces/embedded.o: $(wildcard traces/data/*)
$(BUILD)/verify/suites/suites.o: $(wildcard verify/suites/*.txt)

# ---- installation: below DESTDIR, for PREFIX --------------------------------------------------------------
PREFIX ?= /usr/local
VERSION := 1.0.0
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
# Made of the tables of options, headers and READMEs
MANUALS := treeattn.1 treeattn.3 treeattn_plugin.3 treeattn-child.7
$(BUILD)/man/done: $(PROGRAM) $(wildcard verify/cli/man/*) sim/engine/treeattn.h verify/child/treeattn_plugin.h verify/child/README.md
	$(Q)verify/cli/man/pages.sh $(PROGRAM) $(VERSION) $$($(SOURCE_DATE); date -u -d @$$SOURCE_DATE_EPOCH +%Y-%m-%d) $(BUILD)/man
	$(Q)touch $@
# $(call put,MODE,FILES,FOLDER)
put = mkdir -p $(3) && install -m $(1) $(2) $(3)
# $(call install_into,PREFIX AS FILES KNOW IT,FOLDER IN FRONT OF IT)
define install_into
	$(Q)$(call put,755,$(PROGRAM) $(HOST_PROGRAM) $(LAB_HOST_PROGRAM) $(MPI_PROGRAM),$(1)$(BINDIR))
	$(Q)$(call put,644,$(ENGINE_SO),$(1)$(LIBDIR))
	$(Q)ln -sf libtreeattn.so.1 $(1)$(LIBDIR)/libtreeattn.so
	$(if $(CUDA),$(Q)$(call put,644,$(CUDA_ENGINE_SO),$(1)$(LIBDIR)) && ln -sf libtreeattn-cuda.so.1 $(1)$(LIBDIR)/libtreeattn-cuda.so && \
	  $(call put,644,kernels/cuda/engine/treeattn_cuda.h,$(1)$(INCLUDEDIR)))
	$(Q)$(call put,644,sim/engine/treeattn.h verify/child/treeattn_plugin.h,$(1)$(INCLUDEDIR))
	$(Q)mkdir -p $(1)$(LIBDIR)/pkgconfig
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	  sim/engine/treeattn.pc.in >$(1)$(LIBDIR)/pkgconfig/treeattn.pc
	$(if $(CUDA),$(Q)sed -e 's|-ltreeattn|-ltreeattn-cuda -ltreeattn|' -e 's|^Name: treeattn|Name: treeattn-cuda|' -e 's|^Description:.*|Description: Packed plans of treeattn on an NVIDIA GPU|' \
	  $(1)$(LIBDIR)/pkgconfig/treeattn.pc >$(1)$(LIBDIR)/pkgconfig/treeattn-cuda.pc)
	$(Q)$(call put,644,verify/child/treeattn.py,$(1)$(DATADIR)/treeattn)
	$(Q)for page in $(MANUALS); do mkdir -p $(1)$(MANDIR)/man$${page##*.} && install -m 644 $(BUILD)/man/$$page $(1)$(MANDIR)/man$${page##*.}/ || exit 1; done
	$(Q)mkdir -p $(1)$(DATADIR)/bash-completion/completions && install -m 644 $(BUILD)/man/treeattn.bash $(1)$(DATADIR)/bash-completion/completions/treeattn
endef
INSTALLED = $(foreach page,$(MANUALS),$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(page)) $(DATADIR)/bash-completion/completions/treeattn \
  $(addprefix $(BINDIR)/,treeattn treeattn-host treeattn-lab-host treeattn-mpi) $(addprefix $(LIBDIR)/,libtreeattn.so.1 libtreeattn.so pkgconfig/treeattn.pc libtreeattn-cuda.so.1 libtreeattn-cuda.so pkgconfig/treeattn-cuda.pc) \
  $(addprefix $(INCLUDEDIR)/,treeattn.h treeattn_cuda.h treeattn_plugin.h) $(DATADIR)/treeattn/treeattn.py

.PHONY: install
install: all $(BUILD)/man/done ## install into PREFIX (/usr/local), below DESTDIR: programs, libtreeattn.so.1, headers, man pages, completion
	$(call install_into,$(DESTDIR))
	$(Q)[ -n "$(DESTDIR)" ] || { PATH=$$PATH:/usr/sbin:/sbin; ldconfig 2>/dev/null; ldconfig -p 2>/dev/null | grep -q ' $(LIBDIR)/libtreeattn.so.1$$'; } || \
	  echo 'the loader does not look into $(LIBDIR): run engines with LD_LIBRARY_PATH=$(LIBDIR), or link them with -Wl,-rpath,$(LIBDIR)'

.PHONY: uninstall
uninstall: ## remove what install put there
	$(Q)rm -f $(addprefix $(DESTDIR),$(INSTALLED))
	$(Q)rmdir $(DESTDIR)$(DATADIR)/treeattn 2>/dev/null || true

.PHONY: dist
dist: ## the sources of the last commit, the same bytes from any checkout: DIST (build/dist), with SHA256SUMS
	$(Q)tests/package/dist.sh $(VERSION) $(or $(DIST),$(BUILD)/dist)

# An installation for the tests, and what it takes to build against it.
STAGE := $(abspath $(BUILD))/installed
$(STAGE)/done: $(BUILD)/man/done $(PROGRAM) $(HOST_PROGRAM) $(LAB_HOST_PROGRAM) $(MPI_PROGRAM) $(ENGINE_SO) $(CUDA_ENGINE_SO) \
  sim/engine/treeattn.h $(if $(CUDA),kernels/cuda/engine/treeattn_cuda.h) verify/child/treeattn_plugin.h sim/engine/treeattn.pc.in
	$(call install_into,$(STAGE))
	$(Q)touch $@
STAGED = PKG_CONFIG_LIBDIR=$(STAGE)$(LIBDIR)/pkgconfig PKG_CONFIG_SYSROOT_DIR=$(STAGE)
$(REPLAY) $(BUILD)/tests/engine/fuzz: $(BUILD)/tests/engine/%: tests/engine/%.c $(STAGE)/done | $(BUILD)/needs-tests
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror $(SANFLAGS) $(if $(SANFLAGS),-DFUZZ_SANITIZED) $< $$($(STAGED) pkg-config --cflags --libs treeattn) \
	  -lpthread -Wl,-rpath,'$$ORIGIN/../../installed$(LIBDIR)' -o $@
# and for a GPU; in a bundle its libraries stand in lib/ beside it
$(GPU_ENGINE): tests/engine/gpu.c $(STAGE)/done
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror $(CUDA_CPPFLAGS) $< $$($(STAGED) pkg-config --cflags --libs treeattn-cuda treeattn) $(CUDA_LDLIBS) \
	  -ldl -lm -Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN/../../installed$(LIBDIR):$$ORIGIN/lib' -o $@

# ---- set-up: what a bare Debian 12 lacks ---------------------------------------------------------------
install = $(Q)CC='$(CC)' tests/packages.sh --install
.PHONY: deps
deps: ## install the Debian packages that are missing (needs root or sudo)
	$(install) BUILD TEST DRAW

# Where no CUDA object is there yet, what needs none does not wait for them.
HAVE_CUDA_O := $(wildcard $(CUDA_BUILD)/kernels/cuda/device/*.o)
WITH_CUDA_O := $(if $(HAVE_CUDA_O),,NVCC= $(if $(CUDA),CUDA_SKIPPED='CUDA kernels are left out: make compiles them in some minutes'))

# ---- what a newcomer runs ------------------------------------------------------------------------------
.PHONY: demo
demo: ## install what is missing, build, run the main job on embedded data, show the result
	$(install) BUILD
	$(Q)$(MAKE) --no-print-directory -s -j$$(nproc) $(WITH_CUDA_O) all
	$(Q)$(PROGRAM) compare --trace embedded:reasoning --prompt 4000 --max-seq 6000 --step 900 --trees 40

N ?= 1
LAB ?= tests/labs/L$(N)/$(if $(filter 0,$(N)),answers.txt,$(if $(filter 6,$(N)),found.csv,lab.c))
# Gates that are not passed (exit code 1) are no error of make's.
.PHONY: lab
lab: $(PROGRAM) $(LAB_HOST_PROGRAM) ## judge lab N (N=1), tests/labs/LN/lab.c or LAB=file
	$(Q)$(PROGRAM) lab $(N) $(LAB) $(if $(ID),--id $(ID)) || [ $$? = 1 ]

# What students get needs libc alone, a compiler beside it, and runs on any processor of its kind.
LABS_ARCH ?= $(if $(filter x86_64,$(shell uname -m)),x86-64,native)
LABS_NAME = treeattn-labs-$(COMMIT)
# For what must be the same bytes from the same commit
SOURCE_DATE = SOURCE_DATE_EPOCH=$(or $(SOURCE_DATE_EPOCH),$(if $(wildcard .git),$(shell git log -1 --format=%ct 2>/dev/null)),0)
CLANG := $(findstring clang,$(CC))
LABS_LDLIBS = -static-libgcc -Wl,--build-id=none -Wl,-Bstatic -ljansson -lgomp -Wl,-Bdynamic -lm -ldl -lpthread
.PHONY: labs-dist
labs-dist: ## the labs for students, without sources and solutions: build-labs/treeattn-labs-VERSION.tar.gz
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) BUILD=build-labs ARCH=$(LABS_ARCH) NVCC= $(if $(CLANG),CC=gcc) labs-packed

.PHONY: labs-packed
labs-packed: $(BUILD)/labs/treeattn $(BUILD)/labs/treeattn-lab-host
	$(Q)$(SOURCE_DATE) tests/labs-teaching/pack.sh $(BUILD)/labs $(LABS_NAME) $(BUILD)
	@echo $(BUILD)/$(LABS_NAME).tar.gz

SECRET ?= # a number that students do not know
.PHONY: labs-gradescope
labs-gradescope: labs-dist ## Gradescope's autograder for lab N (N=1) with the seed SECRET: build-labs/gradescope-labN.zip
	$(install) zip
	$(Q)tests/labs-teaching/gradescope.sh build-labs/$(LABS_NAME).tar.gz $(N) '$(SECRET)' build-labs/gradescope-lab$(N)
	$(Q)rm -f build-labs/gradescope-lab$(N).zip && cd build-labs/gradescope-lab$(N) && zip -qrX ../gradescope-lab$(N).zip . && echo build-labs/gradescope-lab$(N).zip

# The library as it is without CUDA, whatever else is built
$(BUILD)/labs/libtreeattn.a: $(call obj,$(sort $(filter-out $(CUDA_ONLY),$(LIB)) $(CUDA_STUBS))) $(BUILD)/objects
	@mkdir -p $(@D)
	$(call say,AR,$@)rm -f $@ && ar qcs $@ $(filter %.o,$^)

$(BUILD)/labs/treeattn: $(call obj,verify/main.c $(WINGS) $(NO_FIT)) $(BUILD)/labs/libtreeattn.a
$(BUILD)/labs/treeattn-lab-host: $(call obj,$(LAB_HOST)) $(HOST_SHARED_O)
$(BUILD)/labs/treeattn $(BUILD)/labs/treeattn-lab-host:
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(LDFLAGS) $^ $(LABS_LDLIBS) -o $@

# ---- the papers' figures ---------------------------------------------------------------------------------
.PHONY: figures
figures: ## compute what no GPU is needed for, draw and check the papers' figures: paper-figs/index.html
	$(install) BUILD DRAW
	$(Q)$(MAKE) --no-print-directory -s -j$$(nproc) $(WITH_CUDA_O) $(PROGRAM) $(DRAWER)
	$(Q)$(DRAWER) --program $(PROGRAM) --scratch $(BUILD)/figures $(if $(FIGURES_OUT),--out $(FIGURES_OUT))

.PHONY: figures-data
figures-data: ## make paper-figs/data anew from DeFT's traces in the folder TRACES (paper-figs/README.md says whence)
	$(Q)$(MAKE) --no-print-directory -s -j$$(nproc) $(WITH_CUDA_O) $(PROGRAM) $(DRAWER)
	$(Q)$(DRAWER) --program $(PROGRAM) --scratch $(BUILD)/figures --kept $(if $(TRACES),--traces "$(TRACES)")

.PHONY: figures-gpu
figures-gpu: $(if $(GPU_PROGRAM),,$(PROGRAM)) $(DRAWER) ## on a GPU: measure on this card what figures are drawn from, and draw them beside the committed ones: build/figures-gpu
	$(Q)TREEATTN=$(or $(GPU_PROGRAM),$(PROGRAM)) FIGURES=$(DRAWER) paper-figs/measured/measure.sh $(BUILD)/figures-gpu

.PHONY: artifact
artifact: ## does it work, and do the figures come out again? Three stages (STAGES="1 2 3"), and a table at the end
	$(install) BUILD
	$(Q)$(MAKE) --no-print-directory -s -j$$(nproc) $(WITH_CUDA_O) all $(DRAWER)
	$(Q)tests/package/artifact.sh $(PROGRAM) $(DRAWER) $(BUILD)/artifact

# ---- GPU -------------------------------------------------------------------------------------------------
# Beside other checks the objects are made by the one make that runs: two would write the same files.
.PHONY: cuda-static
cuda-static: $(if $(filter check%,$(MAKECMDGOALS)),$(CUDA_O)) ## compile all CUDA kernels, without a GPU; fail on register spills, stack frames and an outdated sim/time/tile_regs.def
	$(Q)if [ -z "$(CUDA)" ]; then echo '$(CUDA_SKIPPED)'; else $(MAKE) --no-print-directory -j$$(nproc) cuda-objects && \
	  tests/cuda_static.sh $(CUDA_O:.o=.ptxas) && \
	  tests/tile_regs.sh $(NVCC_VERSION) $(patsubst %.o,%.ptxas,$(filter $(CUDA_BUILD)/kernels/cuda/device/instantiations/group_%,$(CUDA_O))); fi

.PHONY: cuda-objects
cuda-objects: $(CUDA_O)

GPU_BUNDLE := build-gpu
.PHONY: gpu-bundle
gpu-bundle: ## program and libraries for a GPU machine that has none of ours, into build-gpu/
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) BUILD=build-x86-64-v3 ARCH=x86-64-v3 CARRY=1 all $(patsubst $(BUILD)/%,build-x86-64-v3/%,$(GPU_ENGINE))
	$(Q)kernels/cuda/bundle.sh build-x86-64-v3 $(GPU_BUNDLE)

# ---- checks ----------------------------------------------------------------------------------------------
.PHONY: check
check: deps check-prose ## build and run every test (10 minutes on 2 cores); ends with the test runner's totals
	@echo 'make check: about 10 minutes on 2 cores, 15 with SAN=1; suites print when they end'
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) check-built

.PHONY: check-built
check-built: $(PROGRAM) $(HOST_PROGRAM) $(LAB_HOST_PROGRAM) $(MPI_PROGRAM) $(DRAWER) $(RUNNER) check-rest
	$(Q)$(if $(COV),GCOV_ERROR_FILE=$(BUILD)/gcov.log) $(if $(SAN)$(COV),TREEATTN_QUICK=1) OMP_WAIT_POLICY=passive TREEATTN_BIN=$(PROGRAM) FIGURES_BIN=$(DRAWER) $(RUNNER)

.PHONY: check-rest
check-rest: check-verify check-stand-in check-engine check-labs-dist cuda-static check-install check-fuzz check-headers check-example check-layers ## what is no suite, the longest first

.PHONY: check-layers
check-layers: $(BUILD)/libtreeattn.a ## no include may point against the data flow; nothing in the library that is not its own
	$(Q)tests/layers.sh
	$(Q)tests/library.sh $< $$($(CC) -print-file-name=libc.so.6)

.PHONY: check-headers
check-headers: ## headers are C++ as well, and no function of theirs has the linkage of C++; where there is a C++ compiler
	@mkdir -p $(BUILD)/tests
	$(Q)if command -v $(CXX) >/dev/null; then $(CXX) -std=c++17 -fsyntax-only -Wall -Wextra -Werror -I. tests/headers.cc && \
	  tests/headers.sh $(BUILD)/tests $(CXX) $(CC); else echo 'headers: not tried as C++, there is no $(CXX)'; fi

.PHONY: check-prose
check-prose: ## READMEs can be read: lines, bytes, words a sentence
	$(Q)tests/prose.sh

.PHONY: check-labs-dist
ifneq ($(SAN)$(COV)$(CLANG),) # students get a build by gcc, without any of these
check-labs-dist:
else
check-labs-dist: $(BUILD)/labs/treeattn $(BUILD)/labs/treeattn-lab-host ## what students get works alone, and has no answers; twice the same bytes
	$(Q)for i in 1 2; do $(SOURCE_DATE) tests/labs-teaching/pack.sh $(BUILD)/labs treeattn-labs $(BUILD)/labs/$$i || exit 1; done
	$(Q)cmp $(BUILD)/labs/1/treeattn-labs.tar.gz $(BUILD)/labs/2/treeattn-labs.tar.gz
	$(Q)tests/labs_dist.sh $(BUILD)/labs/1/treeattn-labs.tar.gz
endif

# As its head comment says, but for what a build's own library wants.
$(BUILD)/tests/example_outside: $(EXAMPLE) $(BUILD)/libtreeattn.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) -O2 -fopenmp $(SANFLAGS) $(COVFLAGS) -I. $^ -lm -o $@

.PHONY: check-example
check-example: $(BUILD)/tests/example_outside ## a program elsewhere that uses the library
	$(Q)$<

# With threads, all of the library is compiled once more for the thread sanitizer.
TSAN_FLAGS := -std=gnu11 -O1 -g -fsanitize=thread -I. -D_GNU_SOURCE
$(BUILD)/engine-threads/%.o: %.c | $(BUILD)/needs-build
	@mkdir -p $(@D)
	$(call say,CC,$< -fsanitize=thread)$(CC) $(TSAN_FLAGS) -fPIC -ffp-contract=off -MMD -MP -c $< -o $@
ENGINE_THREADS_O := $(patsubst %.c,$(BUILD)/engine-threads/%.o,$(ENGINE) $(ENGINE_PLANNERS))
-include $(ENGINE_THREADS_O:.o=.d)
$(BUILD)/engine-threads/libtreeattn.so.1: $(ENGINE_THREADS_O) sim/engine/treeattn.map
	$(call say,LINK,$@)$(CC) -fsanitize=thread $(ENGINE_LDFLAGS) $(filter %.o,$^) -lm -o $@
$(BUILD)/engine-threads/fuzz: tests/engine/fuzz.c $(BUILD)/engine-threads/libtreeattn.so.1
	$(call say,CC,$<)$(CC) $(TSAN_FLAGS) -DFUZZ_SANITIZED -Isim/engine $^ -lpthread -Wl,-rpath,'$$ORIGIN' -o $@

.PHONY: check-engine
check-engine: $(BUILD)/tests/engine/fuzz $(REPLAY) $(if $(SAN)$(COV),,$(BUILD)/engine-threads/fuzz) $(CUDA_ENGINE_SO) $(if $(CUDA),$(if $(SAN)$(COV),,$(GPU_ENGINE)) $(GPU_ENGINE_STAND_IN)) ## the libraries for engines: their symbols, a million block tables, threads, times, packed plans on a GPU of host memory
	$(Q)$(if $(SAN)$(COV),,tests/engine/symbols.sh $(ENGINE_SO))
	$(Q)$(BUILD)/tests/engine/fuzz $(if $(SAN)$(COV),20000,1000000)
	$(Q)$(BUILD)/tests/engine/fuzz drawn
	$(Q)$(if $(SAN)$(COV),,$(BUILD)/engine-threads/fuzz 40000 1 8 && $(BUILD)/tests/engine/fuzz bench)
	$(if $(CUDA),$(Q)! nm -D --defined-only $(CUDA_ENGINE_SO) | grep -vE ' (ta_[a-z_]+@@TREEATTN_1|TREEATTN_1)$$' && $(GPU_ENGINE_STAND_IN) 11)

.PHONY: check-install
check-install: $(STAGE)/done ## what is installed is enough for a plug-in, an engine, a reader and a shell; two archives are equal; make artifact sees what differs
	$(Q)$(if $(SAN)$(COV),,CC='$(CC)' tests/package/install.sh $(STAGE) $(PREFIX))
	$(Q)tests/package/twice.sh $(BUILD)/twice $(VERSION)
	$(Q)tests/package/artifact_test.sh

# Kernels that are not here are no news in a check.
but_cuda := 2> >(grep -v '^not here: ' >&2)
.PHONY: check-verify
check-verify: export OMP_WAIT_POLICY := passive
check-verify: $(PROGRAM) ## what failed once, random trees and a trace, every strategy, against the oracle; planted faults
	$(Q)$(PROGRAM) verify -q --cases tests/cases.regress $(but_cuda)
	$(Q)$(PROGRAM) verify -q --trees 60 --seed 1 $(if $(SAN)$(COV),--shard 1/24) $(but_cuda)
	$(Q)$(PROGRAM) verify -q --trace embedded:reasoning --prompt 1000 --max-seq 3000 --steps $(if $(SAN)$(COV),1,4) $(but_cuda)
	$(Q)set -o pipefail; $(PROGRAM) verify -q --gpu-cases --sample $(if $(SAN)$(COV),200,80) --kernel cpu --no-shrink | tail -1
	$(Q)$(PROGRAM) selftest $(if $(SAN)$(COV),-q --strategy naive$(comma)flash-decoding$(comma)cascade$(comma)pat$(comma)deft-flatten$(comma)treeattn)

.PHONY: check-stand-in
check-stand-in: $(if $(CUDA),$(STAND_IN_PROGRAM) $(STAND_IN_SWEEP)) ## what drives a GPU, on one of host memory; where CUDA's headers are
	$(Q)$(if $(CUDA),$(if $(SAN)$(COV),TREEATTN_QUICK=1) OMP_WAIT_POLICY=passive tests/stand_in.sh $^,echo '$(CUDA_SKIPPED); so is the stand-in for a GPU')

# ---- on a machine with a GPU; GPU_PROGRAM=path runs a program built elsewhere -----------------------------
GPU_SEEDS ?= 1 2 3
GPU_SETS ?= fasttree-fig9,pat-fig9,speculative
GPU_PEERS ?= $(or $(TREEATTN_SHARED),../shared)/peers
GPU_OUT ?= $(BUILD)/gpu-bench.csv
.PHONY: gpu-check
gpu-check: $(if $(GPU_PROGRAM),,$(PROGRAM) $(GPU_ENGINE)) ## on a GPU: every strategy on the whole design, on the card's path, Ampere's and in wide tiles, planted faults
	$(Q)set -e; p=$(or $(GPU_PROGRAM),$(PROGRAM)); $(if $(GPU_PROGRAM),$(dir $(GPU_PROGRAM))engine-gpu,$(GPU_ENGINE)) 88; \
	for seed in $(GPU_SEEDS); do $$p verify -q --kernel cuda --seed $$seed; done; \
	for seed in $(GPU_SEEDS); do $$p verify -q --kernel cuda --seed $$seed --arch 80; done; \
	for seed in $(GPU_SEEDS); do $$p verify -q --kernel cuda-wide --seed $$seed; done; \
	for arch in auto 80; do for more in '--features softcap' '--features sinks' '--features window' '--features softcap,sinks' \
	  '--features softcap,window' '--features sinks,window' '--head-dim 256' '--head-dim 256 --features softcap,sinks,window' \
	  '--features e4m3,headscales' '--features e5m2,headscales,sinks' '--features e4m3,softcap,window'; do \
	  for seed in $(GPU_SEEDS); do $$p verify -q --kernel cuda --arch $$arch --seed $$seed --sample 8 $$more; done; done; done; \
	$$p selftest -q --kernel cuda; $$p selftest -q --kernel cuda --arch 80; $$p selftest -q --kernel cuda-wide

.PHONY: gpu-sanitize
gpu-sanitize: $(if $(GPU_PROGRAM),,$(PROGRAM)) ## on a GPU: compute-sanitizer over a reduced set, every strategy, on the same three paths
	$(Q)set -e -o pipefail; for tool in memcheck racecheck initcheck; do for path in "cuda --arch auto" "cuda --arch 80" cuda-wide; do echo "$$tool, $$path"; \
	  compute-sanitizer --tool $$tool --error-exitcode 1 $(or $(GPU_PROGRAM),$(PROGRAM)) verify -q --kernel $$path \
	    --cases tests/cases.sanitize | grep -E '^verify|SUMMARY'; done; done

.PHONY: gpu-bench
gpu-bench: $(if $(GPU_PROGRAM),,$(PROGRAM)) ## on a GPU: time every strategy on the papers' trees, into GPU_OUT (build/gpu-bench.csv)
	$(Q)$(or $(GPU_PROGRAM),$(PROGRAM)) bench-gpu --sets $(GPU_SETS) --csv -o $(GPU_OUT)

# What others recorded was timed with an L2 still to be written back.
.PHONY: gpu-bench-recorded
gpu-bench-recorded: $(if $(GPU_PROGRAM),,$(PROGRAM)) ## on a GPU: the same as released kernels were timed, beside GPU_PEERS, into build/gpu-bench-recorded.csv
	$(Q)$(or $(GPU_PROGRAM),$(PROGRAM)) bench-gpu --flush write --sets $(GPU_SETS) $(if $(wildcard $(GPU_PEERS)),--peers $(GPU_PEERS)) \
	  --csv -o $(BUILD)/gpu-bench-recorded.csv

# What treeattn chooses its plans by: measured, fitted, and compiled in.
GPU_SWEEP ?= $(BUILD)
SWEEPS ?= $(wildcard paper-figs/measured/h200_sweep_*.csv)
.PHONY: gpu-sweep
gpu-sweep: $(if $(GPU_PROGRAM),,$(PROGRAM)) ## on a GPU: time the plans that treeattn chooses from, into GPU_SWEEP (build); fifteen minutes
	$(Q)TREEATTN=$(or $(GPU_PROGRAM),$(PROGRAM)) paper-figs/measured/sweep.sh $(GPU_SWEEP)

.PHONY: tile-price
tile-price: $(PROGRAM) ## fit the prices by which treeattn chooses to SWEEPS (paper-figs/measured/h200_sweep_*.csv) of a MACHINE (h200): sim/time/treeattn_cost.def
	$(Q)$(PROGRAM) fit --time-model treeattn --machine $(or $(MACHINE),h200) --save $(BUILD)/tile_price.csv -q $(SWEEPS)
	$(Q)awk -F, 'BEGIN { print "/*\n * treeattn_cost.def - the coefficients of sim/time/treeattn_cost.h, COEF(where, value): made by `make tile-price`.\n */" } \
	  /^[^#]/ && $$2 == "treeattn" { name = $$4; if (split(name, part, ".") == 2 && part[1] != "narrow") name = "of[" toupper(part[1]) "]." part[2]; \
	  printf "COEF(%s, %.4g)\n", name, $$5 }' $(BUILD)/tile_price.csv >$(BUILD)/tile_price.def
	$(Q)mv $(BUILD)/tile_price.def sim/time/treeattn_cost.def

.PHONY: mutants
mutants: deps ## break the code on purpose, in a copy, and see the checks turn red (half a minute each)
	$(Q)tests/mutants.sh

.PHONY: coverage
coverage: ## line and branch coverage of the C code, by gcov and lcov
	$(install) BUILD TEST DRAW lcov
	$(Q)$(MAKE) --no-print-directory -s -j$$(nproc) COV=1 build-cov/treeattn build-cov/tests/run
	$(Q)find build-cov -name '*.gcda' -delete
	$(Q)$(MAKE) --no-print-directory -s COV=1 check-built
	$(Q)lcov --quiet --capture --directory build-cov --output-file build-cov/all.info --rc lcov_branch_coverage=1
	$(Q)lcov --quiet --extract build-cov/all.info "$$PWD/ref/*" "$$PWD/traces/*" "$$PWD/sim/*" "$$PWD/kernels/*" \
	  "$$PWD/verify/*" --output-file build-cov/coverage.info --rc lcov_branch_coverage=1
	$(Q)genhtml --quiet build-cov/coverage.info --output-directory build-cov/html --branch-coverage
	$(Q)lcov --summary build-cov/coverage.info --rc lcov_branch_coverage=1 2>&1 | grep -E 'lines|functions|branches'

# ---- hostile input: a libFuzzer target for every parser, with clang, which nothing else here needs ---------
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_LIB := $(REF) $(TRACE_SOURCES) $(SIM) \
  $(wildcard verify/cases/case.c verify/cases/tree_source.c verify/io/text.c verify/judge/cover.c verify/model/timed_rows.c verify/model/coefficient_file.c \
  verify/report/known.c verify/report/outcome.c verify/report/outcome_json.c verify/report/rows.c verify/io/origin.c verify/io/table.c \
  verify/bundle/*.c verify/child/tensors.c verify/child/first_line.c verify/child/view*.c kernels/kernel_point.c verify/compare/*.c)
FUZZ_FLAGS := -std=gnu11 -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all

.PHONY: fuzz
fuzz: fuzz-build ## fuzz every parser for FUZZ_SECONDS (60) each; NAME=target for one
	$(Q)tests/fuzz/run.sh $(FUZZ) $(FUZZ_SECONDS) $(or $(NAME),$(FUZZ_TARGETS))

# Each target on its seeds alone, without clang: that they link, and hold there, is part of `make check`.
FUZZ_SEEDS := $(FUZZ_TARGETS:%=$(BUILD)/tests/fuzz/fuzz_%)
$(BUILD)/libparsers.a: $(call obj,$(FUZZ_LIB))
	$(call say,AR,$@)rm -f $@ && ar qcs $@ $^

$(FUZZ_SEEDS): %: %.o $(BUILD)/tests/fuzz/seeds.o $(BUILD)/libparsers.a
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $^ -ljansson -lm -o $@

.PHONY: check-fuzz
check-fuzz: $(FUZZ_SEEDS) ## every fuzz target on its seeds
	$(Q)n=0; for name in $(FUZZ_TARGETS); do $(BUILD)/tests/fuzz/fuzz_$$name tests/fuzz/corpus/$$name/* || exit 1; \
	  n=$$((n + $$(ls tests/fuzz/corpus/$$name | wc -l))); done; echo "fuzz: $(words $(FUZZ_TARGETS)) targets keep their promises on $$n seeds"

.PHONY: fuzz-build
fuzz-build: fuzz-deps
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) $(FUZZ_TARGETS:%=$(FUZZ)/fuzz_%)

.PHONY: fuzz-deps
fuzz-deps:
	$(install) BUILD
	$(install) FUZZ

$(FUZZ)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CLANG,$<)clang $(ALL_CPPFLAGS) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -Wall -Wextra -MMD -MP -c $< -o $@

$(FUZZ)/libparsers.a: $(FUZZ_LIB:%.c=$(FUZZ)/%.o)
	$(call say,AR,$@)rm -f $@ && ar qcs $@ $(filter %.o,$^)

$(FUZZ)/fuzz_%: $(FUZZ)/tests/fuzz/fuzz_%.o $(FUZZ)/libparsers.a
	$(call say,LINK,$@)clang $(FUZZ_FLAGS) -fsanitize=fuzzer $^ -ljansson -lm -o $@

.SECONDARY: $(FUZZ_TARGETS:%=$(FUZZ)/tests/fuzz/fuzz_%.o)
-include $(FUZZ_SEEDS:%=%.d) $(BUILD)/tests/fuzz/seeds.d
-include $(patsubst %.c,$(FUZZ)/%.d,$(FUZZ_LIB) $(wildcard tests/fuzz/fuzz_*.c))

.PHONY: format
format: ## clang-format over all C files
	$(Q)clang-format -i $(LIB) $(CUDA_STUBS) $(WINGS) $(FIT) verify/main.c $(TESTS) $(EXAMPLE) $(ENGINE) $(wildcard tests/engine/*.c) $(STAND_IN) $(FIGURES) paper-figs/main.c $(wildcard */*.h */*/*.h kernels/cuda/*/*.h tests/fuzz/*.c)

.PHONY: clean
clean: ## remove everything that was built
	rm -rf build build-san build-cov build-labs build-x86-64-v3 $(CUDA_BUILD) $(GPU_BUNDLE) $(FUZZ)

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14
