# Run `make` for the list of targets.

GOLANGCI_VERSION    := v2.15.0
GOVULNCHECK_VERSION := v1.8.0

# Tools live in bin/ with their version in the name, so that a new pin is a new file.
GOLANGCI := bin/golangci-lint-$(GOLANGCI_VERSION)

BENCH ?= .
COUNT ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup test test-all lint fmt vuln bench bench-check gobench model verify soak demo build build-all pictures man reference release tidy tidy-check clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install what all tests need, where that is possible
	@scripts/setup all

test: ## Test each promise, minutes; needs Go and redis-server (ARGS=flags of go test)
	@scripts/setup
	@scripts/test $(ARGS)

test-all: setup tidy-check lint ## Test everything, with the race detector, a browser, storms and lint
	@scripts/test --all $(ARGS)

lint: $(GOLANGCI) ## Run golangci-lint on every module
	@scripts/each-module "$(CURDIR)/$(GOLANGCI)" run ./...

fmt: $(GOLANGCI) ## Format every module (gofumpt, import groups)
	@scripts/each-module "$(CURDIR)/$(GOLANGCI)" fmt ./...

vuln: ## Look for known vulnerabilities in what the modules call
	@scripts/each-module go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./...

bench: ## Measure berth beside its peers and the floors, minutes (ARGS=--help: what else it can do)
	@! command -v npm >/dev/null || npm install --prefix dev/bench/internal/peer/npm --no-audit --no-fund \
		--no-package-lock --ignore-scripts --loglevel=error || echo "npm install failed: redis-semaphore and Bottleneck do not take part" >&2
	@go run ./dev/bench $(ARGS)

bench-check: ## Compare ratios of speed with dev/bench/expectations.json, two minutes at most
	@go run ./dev/bench --quick --rounds 3 --check dev/bench/expectations.json $(ARGS)

gobench: setup ## Run the Go benchmarks of every module (BENCH=pattern, COUNT=repetitions)
	@scripts/each-module go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...

model: ## Check the models of the protocol with spin (ARGS=-trails: and show how they fail)
	@scripts/setup models
	@nice dev/verify/model/check $(ARGS)

verify: setup ## Storms of faults over client processes, planted bugs that they must catch, topologies (minutes)
	@nice go test ./dev/verify -count=1 -v -timeout 30m -storm $(or $(DURATION),15s) -mutants
	@BERTH_TOPOLOGY_ROUNDS=8 nice go test ./dev/verify/topology -count=1 -v -timeout 1h

soak: setup ## Storms with new seeds for DURATION, by default an hour
	@nice go test ./dev/verify -count=1 -v -timeout 0 -run TestStorm -storm 1m -soak $(or $(DURATION),1h)

demo: ## Watch workers share a small limit; needs nothing but Go
	@go run ./cmd/berth demo

build: ## Build the command line into bin/berth
	@go build -buildvcs=auto -o bin/berth ./cmd/berth

build-all: ## Compile for every platform that berth supports
	@nice scripts/build-all

pictures: ## Draw the SVG pictures of the docs; needs graphviz
	@command -v dot >/dev/null || { echo "make pictures needs graphviz: apt-get install graphviz, or brew install graphviz" >&2; exit 1; }
	@dot -Tsvg docs/img/architecture.dot -o docs/img/architecture.svg
	@cd cmd/berth && go test ./internal/top -count=1 -run TestPicture -pictures "$(CURDIR)/docs/img"

man: ## Write the manual pages into dist/man
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) go run ./cmd/berth/internal/man dist/man

reference: ## Write docs/commands.md, the reference of the command, from its help
	@go run ./cmd/berth/internal/man -reference docs/commands.md

release: ## Build archives, image contexts and their checksums into dist/release (ARGS=VERSION)
	@nice scripts/release $(ARGS)

tidy: ## Run go mod tidy in every module
	@scripts/each-module "$(CURDIR)/scripts/on-checkout" go mod tidy

tidy-check: ## Fail if make tidy would change a module
	@scripts/each-module "$(CURDIR)/scripts/on-checkout" go mod tidy -diff

clean: ## Remove what was built here, tools included
	@rm -rf bin dist

$(GOLANGCI):
	@echo "installing golangci-lint $(GOLANGCI_VERSION) into bin/, about two minutes the first time"
	@GOBIN="$(CURDIR)/bin" go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv bin/golangci-lint $@
