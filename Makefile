# Everything here needs Go and make; `make test` gets the rest itself. `make` alone lists the targets.

GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK   := golang.org/x/vuln/cmd/govulncheck@v1.8.0
APIDIFF       := golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4

# The folders of all modules: this one, and those beside it. go.work lists them.
MODULES = $$(go list -m -f '{{.Dir}}')
# Programs, which nobody imports: make test leaves their tests to make smoke.
PROGRAMS := bench examples nemesis
# Suites of faults on real servers, which wait for them: make test leaves them to make test-faults.
SUITES := nemesis/contention nemesis/faulttest
# Tests in a browser: make test leaves them to make page.
BROWSED := integration/page
# The longest of the others, which wait the most: they begin first, so that none is left to run by itself. Tests wait for
# servers more than they compute: so four packages run at once, on two cores too.
FIRST := ./renewer/redisstore ./cmd/lockbeat/internal/cli ./renewer/quorum ./cmd/lockbeat/internal/run ./lockmw/rivermw ./renewer \
	./cmd/lockbeat/internal/doctor ./cmd/lockbeat/internal/locks ./lockmw/asynq ./integration/sql
# How long each fuzz function runs.
FUZZTIME ?= 20s
# How many grants `make sim` plays.
SIMGRANTS ?= 1000000
# Flags of the tests in a browser: -docs writes the docs' pictures, -pictures=/DIR all of them.
PAGEARGS ?=
# Flags and arguments for the benchmark program.
BENCHARGS ?=
# Flags for the nemesis program.
NEMESISARGS ?=
# Flags of go test, for make shake.
SHAKEARGS ?=

# No test passes by being skipped. The race detector would let each process, of which tests start many, sleep for a second
# at its end, for races of goroutines that are still running; tests fail if any is.
TESTENV := CGO_ENABLED=1 LOCKBEAT_REQUIRE_REDIS=1 LOCKBEAT_REQUIRE_POSTGRES=1 LOCKBEAT_REQUIRE_MARIADB=1 LOCKBEAT_REQUIRE_PROMTOOL=1 LOCKBEAT_REQUIRE_PGBOUNCER=1 GORACE=atexit_sleep_ms=20

# Packages with tests that are longer in a long run: see internal/testutil/suite.
LONG := $$(grep -rlE --include='*_test.go' 'suite\.(Long|OnlyLong|Size)' ./cmd ./integration ./lockmw ./nemesis ./renewer ./testutil/embedded | sed 's,/[^/]*$$,,' | sort -u)

# What make test tests.
TESTED := $$(go list work | grep -vE '/($(subst $() ,|,$(PROGRAMS) $(BROWSED)))(/|$$)')
# What make smoke tests.
SMOKED := $$(go list $(PROGRAMS:%=./%/...) | grep -vE '/($(subst $() ,|,$(SUITES)))$$')

.DEFAULT_GOAL := help
.PHONY: help test check lint platforms fmt tidy modules api vuln test-faults test-long sim shake fuzz smoke page nemesis bench bench-instructions clean
.PHONY: cc redis postgres mariadb pgbouncer promtool valgrind chromium

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

test: cc redis postgres mariadb pgbouncer promtool ## run the tests under -race on real Redis, PostgreSQL, MariaDB (installs what is missing)
	$(TESTENV) go test -p 4 -race -count=1 -timeout 6m $(FIRST) $(TESTED)

# An unreachable vulnerability database does not stop this one, so that it can be used without a
# network; a line then says that nothing was checked. VULN_OFFLINE_OK=0 makes it strict.
check: export VULN_OFFLINE_OK ?= 1
check: ## everything a change must pass: lint, platforms, tidy, modules, api, test, test-faults, smoke, vuln
	@for target in lint platforms tidy modules api test test-faults smoke vuln; do \
		printf '\n== make %s (at %s)\n' "$$target" "$$(date +%T)"; \
		$(MAKE) --no-print-directory "$$target" || exit; \
	done

# What tests need beside Go: it is found, or installed.
cc redis postgres mariadb pgbouncer promtool valgrind chromium:
	@scripts/ensure $@

lint: ## run the pinned golangci-lint (built once into ./bin)
	@set -e; linter=$$(scripts/tool $(GOLANGCI_LINT)); for module in $(MODULES); do (set -x; cd $$module; "$$linter" run ./...); done

platforms: ## vet what is released, its tests too, for Windows and for 32 bits
	@set -e; for module in $(MODULES); do \
		case $$module in */bench|*/nemesis|*/integration|*/examples) continue;; esac; \
		(set -x; cd $$module; CGO_ENABLED=0 GOOS=windows GOARCH=386 go vet ./...); \
	done
	CGO_ENABLED=0 GOARCH=386 go vet ./... # what is for Unix alone is here, and in the command
	cd cmd/lockbeat && CGO_ENABLED=0 GOARCH=386 go vet ./...

fmt: ## format the code the way lint wants it
	@set -e; linter=$$(scripts/tool $(GOLANGCI_LINT)); for module in $(MODULES); do (set -x; cd $$module; "$$linter" fmt ./...); done

tidy: ## fail if a go.mod or go.sum is not tidy
	@set -e; for module in $(MODULES); do (export GOWORK=off; set -x; cd $$module; go mod tidy -diff); done

modules: ## prove that programs outside of the repository can build on each released module
	@scripts/release check

api: ## fail if a change breaks users of the last release, and the changelog does not name it
	@scripts/api $(APIDIFF)

vuln: ## look for known vulnerabilities (VULN_OFFLINE_OK=1: no failure if their list is away)
	@checker=$$(scripts/tool $(GOVULNCHECK)) && scripts/vuln "$$checker"

test-faults: cc redis ## run the suites of faults on real servers
	$(TESTENV) go test -race -count=1 -timeout 6m $(SUITES:%=./%)

test-long: cc redis postgres mariadb pgbouncer promtool ## run the packages that have long tests with these
	$(TESTENV) LOCKBEAT_LONG=1 go test -race -count=1 -timeout 15m $(LONG)

sim: ## play the simulation for SIMGRANTS grants (default a million; the tests play 10,000)
	go test ./renewer/internal/simtest -count=1 -timeout 30m -run 'TestSimulation$$' -v -sim.grants=$(SIMGRANTS)

shake: cc redis postgres mariadb pgbouncer promtool ## run the tests three times, in rare orders of events (SHAKEARGS: flags of go test)
	$(TESTENV) scripts/shake -race -count=3 -timeout 20m $(SHAKEARGS) $(FIRST) $(SUITES:%=./%) $(TESTED)

fuzz: ## run every fuzz function for FUZZTIME (default 20s)
	@scripts/fuzz $(FUZZTIME)

smoke: cc redis postgres valgrind ## test the examples, bench and nemesis, with a short run of each
	$(TESTENV) go test -race -count=1 -timeout 6m $(SMOKED)

page: chromium ## test the page of locks in a headless Chromium (installs it; PAGEARGS: flags of the tests)
	cd $(BROWSED) && go test -count=1 -timeout 3m . $(if $(PAGEARGS),-args $(PAGEARGS))

nemesis: cc redis ## put each deployment under fire, five minutes in all (NEMESISARGS: flags, as in -h)
	cd nemesis && go run . $(NEMESISARGS)

bench: redis valgrind ## print the benchmarks' tables (BENCHARGS: flags, such as -run cycles)
	cd bench && go run . $(BENCHARGS)

bench-instructions: BENCHARGS = -run '^instructions$$'
bench-instructions: bench ## count the instructions of redis-server, which are bound by what bench/instructions.go keeps

clean: ## remove ./bin
	rm -rf bin
