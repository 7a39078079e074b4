# make test is the whole of the tests: the library, and in integration/ what
# needs databases. It installs what is missing on Debian and its kin; where it
# cannot, the tests of those servers fail and say so, and the others run.

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0

BENCHSTAT := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
BENCH_COUNT ?= 6
BENCH_OUT ?= /tmp/fencedsql-bench.txt

.PHONY: install demo test lint bench benchstat fuzz

install:
	.ci/install

demo:
	go run ./cmd/fencedsql demo

test:
	-.ci/install
	go test -race -timeout 30m ./...
	cd integration && go test -race -timeout 30m ./...

lint:
	test -z "$$(gofmt -l .)"
	go vet ./...
	cd integration && go vet ./...
	go run $(STATICCHECK) ./...
	cd integration && go run $(STATICCHECK) ./...

bench:
	cd integration && go test -run '^$$' -bench . -benchmem -benchtime 50ms -count $(BENCH_COUNT) -timeout 0 ./bench > $(BENCH_OUT)
	cd integration && go test -run '^$$' -bench . -benchtime 500ms -count $(BENCH_COUNT) -timeout 0 ./store >> $(BENCH_OUT)
	cd integration && go run ./bench/report < $(BENCH_OUT)

benchstat:
	cd integration && go run $(BENCHSTAT) -col /driver $(BENCH_OUT)

# A number of inputs, not a time: until Go 1.27 a run that ends by the clock may fail for that alone (go.dev/issue/75804).
FUZZ_SQLITE ?= 1000000x
FUZZ_WITNESS ?= 300000x

fuzz:
	go test ./rewrite -run '^$$' -fuzz FuzzSQLite -fuzztime $(FUZZ_SQLITE) -fuzzminimizetime 10x
	cd integration && go test ./witness -run '^$$' -fuzz FuzzWitness -fuzztime $(FUZZ_WITNESS) -fuzzminimizetime 10x
