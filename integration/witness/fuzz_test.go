package witness

import (
	"context"
	"database/sql"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"

	_ "github.com/fencedsql/fencedsql/dialects/sqlite"
	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"
)

// dismantles are the words by which a text could take the witness or the
// tables away, which no fence is about.
var dismantles = regexp.MustCompile(`(?i)create|drop|alter|pragma|attach|detach|vacuum|violations|witness|load_extension|writefile`)

// FuzzWitness sends texts to a real database under a lease with fence 6. Row 2
// of each table has fence 7, and must stay as it is; the witness must see no
// row written without fence 6.
func FuzzWitness(f *testing.F) {
	plans, err := os.ReadFile(filepath.Join("..", "..", "dialects", "sqlite", "testdata", "plans.txt"))
	if err != nil {
		f.Fatal(err)
	}
	for _, block := range strings.Split(string(plans), "=== ") {
		if _, rest, ok := strings.Cut(block, "\n"); ok {
			text, _, _ := strings.Cut(rest, "\n--- ")
			f.Add(text)
		}
	}
	for _, text := range literals(f, filepath.Join("..", "conformance_test.go")) {
		f.Add(text)
	}

	dsn := "file:" + f.Name() + "?mode=memory&cache=shared"
	bare, err := sql.Open("sqlite3", dsn)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { bare.Close() })
	db, err := fencedsql.Open("sqlite3", dsn, fencedsql.WithTables(Tables...))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { db.Close() })
	do := func(t testing.TB, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if _, err := bare.Exec(text); err != nil {
				t.Fatalf("%v\nin %s", err, text)
			}
		}
	}
	do(f, SQLite...)
	holder := lease.New("the fuzzer's", lease.Fence{Count: 6}).Context(context.Background())

	f.Fuzz(func(t *testing.T, text string) {
		if dismantles.MatchString(text) {
			return
		}
		do(t, Rows...)
		do(t, Lease(6))
		conn, err := db.Conn(holder)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(holder, time.Second) // some texts never end
		defer cancel()
		for n := range 5 { // the right number of arguments is among these
			args := make([]any, n)
			for i := range args {
				args[i] = i + 1
			}
			if _, err := conn.ExecContext(ctx, text, args...); err == nil {
				break
			}
		}
		// A text may begin a transaction and not end it.
		for _, end := range []string{"COMMIT", "ROLLBACK"} {
			_, _ = conn.ExecContext(context.Background(), end)
		}
		show := func(table string) string {
			rs, err := bare.Query("SELECT * FROM " + table)
			if err != nil {
				t.Fatal(err)
			}
			return Render(t, rs)
		}
		if got := show("violations"); got != "" {
			t.Errorf("%q: the witness saw bare writes: %s", text, got)
		}
		for table, row := range map[string]string{"j": "2|b|20|f7", "pair": "1|2|b|f7", "nokey": "2|b|f7", "onlyonce": "2|b|f7", "counted": "2|b|7"} {
			if got := show(table); !strings.Contains(", "+got+",", ", "+row+",") {
				t.Errorf("%q: table %s holds %s", text, table, got)
			}
		}
	})
}

// literals are the strings of a Go file: the texts of the suite among them.
func literals(f *testing.F, file string) (out []string) {
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		f.Fatal(err)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(text, " ") {
				out = append(out, text)
			}
		}
		return true
	})
	if len(out) < 100 {
		f.Fatalf("only %d texts in %s", len(out), file)
	}
	return out
}
