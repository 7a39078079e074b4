package fencedsql_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/fencedsql/fencedsql"

// mayImport says what a package of the module may import of the module, and
// of others; the standard library is free to all. A dialect's folder may have
// its parser and nothing that reaches a database.
var mayImport = map[string][]string{
	module + "/lease":           {},
	module + "/lease/httplease": {module + "/lease"},
	module + "/lease/sqlstore":  {module + "/lease"},

	module + "/rewrite": {module + "/dialects", module + "/lease"},
	module + "/driver":  {module + "/dialects", module + "/lease", module + "/rewrite"},

	module + "/dialects":          {module + "/lease"},
	module + "/dialects/sqlite":   {module + "/dialects", module + "/lease", "github.com/sqlc-dev/meyer"},
	module + "/dialects/postgres": {module + "/dialects", module + "/lease", "github.com/sqlc-dev/oliphant", "google.golang.org/protobuf"},
	module + "/dialects/mysql":    {module + "/dialects", module + "/lease", "github.com/pingcap/tidb/pkg/parser"},
}

// TestImportDirection: a statement walks driver, rewrite, dialect; lease
// stands alone; who uses one engine links one parser.
func TestImportDirection(t *testing.T) {
	cmd := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./lease/...", "./rewrite/...", "./driver/...", "./dialects/...")
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seen := 0
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		names := strings.Fields(line)
		allowed, known := mayImport[names[0]]
		if !known {
			if !strings.Contains(names[0], "/internal/") {
				t.Errorf("package %s is not in the list", names[0])
			}
			continue
		}
		seen++
		for _, imported := range names[1:] {
			own := slices.ContainsFunc(allowed, func(a string) bool {
				return imported == a || !strings.HasPrefix(a, module) && strings.HasPrefix(imported, a+"/")
			})
			if strings.Contains(strings.Split(imported, "/")[0], ".") && !own {
				t.Errorf("%s imports %s", names[0], imported)
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d packages were looked at", seen)
	}
}

// TestReadme: the README's Go is that of the examples, which run.
func TestReadme(t *testing.T) {
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(readme), "```go\n")[1:]
	if len(blocks) < 4 {
		t.Errorf("only %d blocks", len(blocks))
	}
	for _, b := range blocks {
		code, _, _ := strings.Cut(b, "```")
		if strings.HasPrefix(code, "import") {
			for _, line := range strings.Split(code, "\n")[1:] {
				if !strings.Contains(string(examples), strings.TrimSuffix(line, ")")) {
					t.Errorf("no example imports %s", line)
				}
			}
			continue
		}
		if !strings.Contains(squeeze(string(examples)), squeeze(code)) {
			t.Errorf("no example has\n%s", code)
		}
	}
}

// TestWithoutCgo: the library is pure Go.
func TestWithoutCgo(t *testing.T) {
	cmd := exec.Command("go", "build", "./lease/...", "./rewrite/...", "./driver/...", "./dialects/...")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
