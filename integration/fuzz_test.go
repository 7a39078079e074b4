package integration

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// dismantles are the words by which a text could take the witness or the
// tables away, which no fence is about.
var dismantles = regexp.MustCompile(`(?i)create|drop|alter|pragma|attach|detach|vacuum|violations|witness|load_extension|writefile`)

// FuzzWitness sends texts to a real database under a lease with fence 6. Row 2
// of each table has fence 7, and must stay as it is; the witness must see no
// row written without fence 6.
func FuzzWitness(f *testing.F) {
	for i := range statements {
		if text, ok := statements[i].on("sqlite"); ok {
			f.Add(text)
		}
	}
	plans, err := os.ReadFile(filepath.Join("..", "dialects", "sqlite", "testdata", "plans.txt"))
	if err != nil {
		f.Fatal(err)
	}
	for _, block := range strings.Split(string(plans), "=== ") {
		if _, rest, ok := strings.Cut(block, "\n"); ok {
			text, _, _ := strings.Cut(rest, "\n--- ")
			f.Add(text)
		}
	}
	e := *sqliteEngines[0]
	e.create = func(t testing.TB) string { return "file:" + t.Name() + "?mode=memory&cache=shared" }
	base := e.open(f)
	f.Fuzz(func(t *testing.T, text string) {
		if dismantles.MatchString(text) {
			return
		}
		v := base.with(t)
		ctx, cancel := context.WithTimeout(v.under(6), time.Second)
		defer cancel()
		conn, err := v.db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for n := range 5 { // the right number of arguments is among these
			args := make([]any, n)
			for i := range args {
				args[i] = i + 1
			}
			// A text may begin a transaction and not end it.
			if _, err := conn.ExecContext(ctx, text, args...); err == nil {
				break
			}
		}
		for _, end := range []string{"COMMIT", "ROLLBACK"} {
			_, _ = conn.ExecContext(context.Background(), end)
		}
		v.clean()
		for table, row := range map[string]string{"j": "2|b|20|f7", "pair": "1|2|b|f7", "nokey": "2|b|f7", "onlyonce": "2|b|f7", "counted": "2|b|7"} {
			if got := v.show(table); !strings.Contains(", "+got+",", ", "+row+",") {
				t.Errorf("%q: table %s holds %s", text, table, got)
			}
		}
	})
}
