package bench

import (
	"context"
	"database/sql"
	"testing"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/rewrite"
)

// fencedWrite is a write of the fenced table, as a program has it and as one has it that fences by hand.
type fencedWrite struct {
	name string
	// text is what a program writes, and byHand what is sent for it.
	text, byHand string
	// args are those of text for the i-th call, and byHandArgs those of byHand.
	args, byHandArgs func(i int) []any
	// counts is true when a refusal shows as a count of 0, and not as an error.
	counts bool
}

var fencedWrites = []fencedWrite{
	{
		name:       "pinned",
		text:       `UPDATE chats SET summary = ? WHERE id = ?`,
		byHand:     `UPDATE chats SET summary = ?, summary_fence = ? WHERE (id = ?) AND summary_fence < ?`,
		args:       func(i int) []any { return []any{"a summary", id(i)} },
		byHandArgs: func(i int) []any { return []any{"a summary", fence, id(i), bound} },
		counts:     true,
	},
	{
		name:       "assertion",
		text:       `UPDATE chats SET seen = ? WHERE owner = ?`,
		byHand:     `UPDATE chats SET seen = ?, summary_fence = ` + asserted + ` WHERE owner = ?`,
		args:       func(i int) []any { return []any{i, id(i) / 10} },
		byHandArgs: func(i int) []any { return []any{i, bound, fence, id(i) / 10} },
	},
	{
		name: "insert",
		// The row is there, so that the table does not grow from call to call.
		text:       `INSERT OR IGNORE INTO chats (id, owner, summary) VALUES (?, ?, ?)`,
		byHand:     `INSERT OR IGNORE INTO chats (id, owner, summary, summary_fence) VALUES (?, ?, ?, ?)`,
		args:       func(i int) []any { return []any{id(i), 1, "a summary"} },
		byHandArgs: func(i int) []any { return []any{id(i), 1, "a summary", fence} },
	},
	{
		name: "upsert",
		text: `INSERT INTO chats (id, owner, summary) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET summary = excluded.summary`,
		byHand: `INSERT INTO chats (id, owner, summary, summary_fence) VALUES (?, ?, ?, ?)` +
			` ON CONFLICT (id) DO UPDATE SET summary = excluded.summary, summary_fence = ` + asserted,
		args:       func(i int) []any { return []any{id(i), 1, "a summary"} },
		byHandArgs: func(i int) []any { return []any{id(i), 1, "a summary", fence, bound, fence} },
	},
}

// asserted is the new value of the fence column, or an error of SQLite.
const asserted = `CASE WHEN chats.summary_fence < ? THEN ? ` +
	`ELSE json_extract('{}', 'fencedsql:' || coalesce(chats.summary_fence, 'NULL')) END`

func id(i int) int { return i%rowsInChats + 1 }

// TestByHand compares what is written here by hand with what the driver sends.
func TestByHand(t *testing.T) {
	d, err := dialects.Get("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	r, err := rewrite.New(d, []rewrite.Table{rewrite.Table(chats)})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range fencedWrites {
		p := r.Plan(w.text, 0, nil)
		if p.Verdict != rewrite.Fence || p.Text != w.byHand {
			t.Errorf("%s:\nsent     %s\nby hand  %s", w.name, p.Text, w.byHand)
			continue
		}
		args, byHandArgs := w.args(3), w.byHandArgs(3)
		for i, a := range p.Args {
			want := map[rewrite.Arg]any{rewrite.FenceArg: fence, rewrite.BoundArg: bound}[a]
			if a > 0 {
				want = args[a-1]
			}
			if byHandArgs[i] != want {
				t.Errorf("%s: argument %d is %v by hand and %v sent", w.name, i+1, byHandArgs[i], want)
			}
		}
	}
}

// wrappers are the ways to make a fenced write. The program that fences by hand comes first, since it is what the others
// compare with. driver=bare sends the statement that has no fence; sqlmw and otelsql send what is written by hand.
var wrappers = []string{"byhand", "fencedsql", "bare", "sqlmw", "otelsql"}

// sendFenced returns a func that makes the write through the wrapper. All contexts can be cancelled, since a lease's can:
// go-sqlite3 runs a statement on a goroutine of its own then.
//
// Who fences by hand a write whose refusal is a count of 0 must look at the count; the driver's callers need not.
func sendFenced(tb testing.TB, w fencedWrite, wrapper string, exec func(ctx context.Context, text string, args ...any) (sql.Result, error)) func(i int) {
	ctx := holder.Context(context.Background())
	text, args, counts := w.byHand, w.byHandArgs, w.counts
	switch wrapper {
	case "bare", "fencedsql":
		text, args, counts = w.text, w.args, false
	}
	return func(i int) {
		res, err := exec(ctx, text, args(i)...)
		if err != nil {
			tb.Fatal(err)
		}
		if counts {
			if n, err := res.RowsAffected(); err != nil || n != 1 {
				tb.Fatalf("%d rows, %v", n, err)
			}
		}
	}
}

func direct(tb testing.TB, e engine, w fencedWrite, wrapper string) func(i int) {
	db := e.open(tb, wrapper, tables(1))
	return sendFenced(tb, w, wrapper, db.ExecContext)
}

func prepared(tb testing.TB, e engine, w fencedWrite, wrapper string) func(i int) {
	db := e.open(tb, wrapper, tables(1))
	db.SetMaxOpenConns(1)
	text := w.byHand
	if wrapper == "bare" || wrapper == "fencedsql" {
		text = w.text
	}
	st, err := db.PrepareContext(context.Background(), text)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { st.Close() })
	return sendFenced(tb, w, wrapper, func(ctx context.Context, _ string, args ...any) (sql.Result, error) {
		return st.ExecContext(ctx, args...)
	})
}

// inTx makes the writes in one transaction.
func inTx(tb testing.TB, e engine, w fencedWrite, wrapper string) func(i int) {
	db := e.open(tb, wrapper, tables(1))
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := tx.Commit(); err != nil {
			tb.Error(err)
		}
	})
	return sendFenced(tb, w, wrapper, tx.ExecContext)
}

// BenchmarkFenced makes fenced writes whose plan is cached.
func BenchmarkFenced(b *testing.B) {
	for _, e := range []engine{noop, memory} {
		for _, w := range fencedWrites {
			compareFenced(b, "on="+e.name+"/write="+w.name, e, w, direct)
		}
		compareFenced(b, "on="+e.name+"/write=prepared", e, fencedWrites[0], prepared)
		compareFenced(b, "on="+e.name+"/write=tx", e, fencedWrites[0], inTx)
	}
}

func compareFenced(b *testing.B, name string, e engine, w fencedWrite, open func(testing.TB, engine, fencedWrite, string) func(int)) {
	var ways []way
	for _, wrapper := range wrappers {
		ways = append(ways, way{wrapper, func(b *testing.B) func(int) { return open(b, e, w, wrapper) }})
	}
	compare(b, name, ways)
}
