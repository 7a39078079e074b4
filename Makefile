# make test is the whole of the tests: the library, and in integration/ what
# needs databases. It installs what is missing on Debian and its kin; where it
# cannot, the tests of those servers fail and say so, and the others run.

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0

.PHONY: install demo test lint bench fuzz

install:
	.ci/install

demo:
	go run ./cmd/fencedsql demo

test:
	-.ci/install
	go test -race ./...
	cd integration && go test -race ./...

lint:
	test -z "$$(gofmt -l .)"
	go vet ./...
	cd integration && go vet ./...
	go run $(STATICCHECK) ./...
	cd integration && go run $(STATICCHECK) ./...

fuzz:
	go test ./rewrite -run '^$$' -fuzz FuzzSQLite -fuzztime 60s
