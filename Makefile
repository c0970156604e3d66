# treeattn: one non-recursive Makefile. `make help` lists the targets.
#   V=1        show the commands           SAN=1   AddressSanitizer + UndefinedBehaviorSanitizer
#   COV=1      instrument for gcov         BUILD=  where everything goes (default build, build-san, build-cov)
SHELL := /bin/bash
.DEFAULT_GOAL := all
.SUFFIXES:
.DELETE_ON_ERROR:

SUFFIX := $(if $(SAN),-san)$(if $(COV),-cov)
BUILD ?= build$(SUFFIX)
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-8s %s\n' '$(1)' '$(2)';)

CC ?= gcc
ARCH ?= native
OPT := $(if $(SAN)$(COV),-O1 -g,-O3 -g)
WARN := -Wall -Wextra -Wconversion -Wno-sign-conversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
SANFLAGS := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
COVFLAGS := $(if $(COV),--coverage)
comma := ,
OPENBLAS_CFLAGS = $(shell pkg-config --cflags openblas 2>/dev/null)
OPENBLAS_LIBS = $(shell pkg-config --libs openblas 2>/dev/null || echo -lopenblas)
CPPFLAGS += -I. -D_GNU_SOURCE $(OPENBLAS_CFLAGS)
CFLAGS += -std=gnu11 $(OPT) -march=$(ARCH) -fopenmp -ffp-contract=off $(WARN) $(SANFLAGS) $(COVFLAGS)
LDFLAGS += -fopenmp $(SANFLAGS) $(COVFLAGS)
LDLIBS += $(OPENBLAS_LIBS) -ljansson -lm

# ---- sources: every .c of a folder belongs to it; nothing to register here --------------------------
REF := $(wildcard ref/*.c)
TRACES := $(wildcard traces/*.c)
SIM := $(wildcard sim/*.c sim/strategies/*.c)
KERNELS := $(wildcard kernels/*.c kernels/cpu/*.c)
VERIFY := $(filter-out verify/main.c,$(wildcard verify/*.c))
LIB := $(REF) $(TRACES) $(SIM) $(KERNELS) $(VERIFY)
TESTS := $(wildcard tests/*.c)
obj = $(patsubst %.c,$(BUILD)/%.o,$(1))
PROGRAM := $(BUILD)/treeattn
RUNNER := $(BUILD)/tests/run

.PHONY: all
all: $(PROGRAM) ## build build/treeattn

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libtreeattn.a: $(call obj,$(LIB))
	$(call say,AR,$@)rm -f $@ && ar rcs $@ $^

$(PROGRAM): $(BUILD)/verify/main.o $(BUILD)/libtreeattn.a
	$(call say,LINK,$@)$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

$(RUNNER): $(call obj,$(TESTS)) $(BUILD)/libtreeattn.a
	$(call say,LINK,$@)$(CC) $(LDFLAGS) $^ $$(pkg-config --libs check) $(LDLIBS) -o $@

-include $(patsubst %.o,%.d,$(call obj,$(LIB) verify/main.c $(TESTS)))

# trace data is assembled into the program
$(BUILD)/traces/embedded.o: $(wildcard traces/data/*)

.PHONY: clean
clean: ## remove everything that was built
	rm -rf build build-san build-cov

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14
