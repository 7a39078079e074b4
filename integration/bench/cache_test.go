package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	fencedsql "github.com/fencedsql/fencedsql/driver"
)

// cacheLimit is what the plans of one pool may take.
const cacheLimit = 16 << 20

// floods are statements that a tracing library puts a comment of its own behind.
var floods = []struct {
	name    string
	text    string
	comment int // bytes
	count   int // of different texts
	args    []any
}{
	{"fenced/64B", `UPDATE chats SET summary = ? WHERE id = ?`, 64, 10_000, []any{"s", 1}},
	{"fenced/2KiB", `UPDATE chats SET summary = ? WHERE id = ?`, 2 << 10, 10_000, []any{"s", 1}},
	{"fenced/40KiB", `UPDATE chats SET summary = ? WHERE id = ?`, 40 << 10, 1000, []any{"s", 1}},
	{"fenced/200KiB", `UPDATE chats SET summary = ? WHERE id = ?`, 200 << 10, 200, []any{"s", 1}},
	{"named", `UPDATE chats SET summary = $summary WHERE id = $id`, 2 << 10, 10_000, []any{sql.Named("summary", "s"), sql.Named("id", 1)}},
	{"arguments", `INSERT INTO chats (id, owner) VALUES (?, ?)` + strings.Repeat(`, (?, ?)`, 199), 64, 2500, make([]any, 400)},
	{"delete", `DELETE FROM chats WHERE owner = ?`, 2 << 10, 10_000, []any{1}},
	{"refused", `REPLACE INTO chats (summary, id) VALUES (?, ?)`, 2 << 10, 10_000, []any{"s", 1}},
	{"pass/64B", `UPDATE notes SET seen = ? WHERE id = ?`, 64, 10_000, []any{1, 1}},
	{"pass/10KiB", `UPDATE notes SET seen = ? WHERE id = ?`, 10 << 10, 10_000, []any{1, 1}},
	{"transaction", `RELEASE here`, 2 << 10, 10_000, nil},
}

// flood returns a func that sends such a text, another one each time.
func flood(tb testing.TB, db *sql.DB, n int) func() {
	ctx := holder.Context(context.Background())
	f, i := floods[n], 0
	pad := strings.Repeat("x", f.comment-len(" /* 00000000 */"))
	return func() {
		i++
		_, err := db.ExecContext(ctx, fmt.Sprintf("%s /* %s%08d */", f.text, pad, i), f.args...)
		if err != nil && !(f.name == "refused" && errors.Is(err, fencedsql.ErrUnfenceable)) {
			tb.Fatal(err)
		}
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one leaves what sync.Pools hold
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestPlanCacheBounded measures what ten thousand texts leave in memory.
func TestPlanCacheBounded(t *testing.T) {
	for n, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			db := noop.open(t, "fencedsql", tables(1))
			send := flood(t, db, n)
			send()
			before := heap()
			for range f.count {
				send()
			}
			grown := heap() - before
			t.Logf("%.2f MiB", float64(grown)/(1<<20))
			if grown > cacheLimit {
				t.Errorf("%d texts take %d bytes, the limit is %d", f.count, grown, cacheLimit)
			}
			runtime.KeepAlive(db)
		})
	}
}

// BenchmarkFlood sends texts that were never sent before. MiB is the memory that they leave behind.
func BenchmarkFlood(b *testing.B) {
	for n, f := range floods {
		name, size, _ := strings.Cut(f.name, "/")
		if size != "64B" {
			continue
		}
		ways := []way{}
		for _, wrapper := range []string{"bare", "fencedsql"} {
			ways = append(ways, way{wrapper, func(b *testing.B) func(int) {
				send := flood(b, noop.open(b, wrapper, tables(1)), n)
				send()
				before := heap()
				b.Cleanup(func() {
					b.ReportMetric(float64(max(0, heap()-before))/(1<<20), "MiB")
					runtime.KeepAlive(send)
				})
				return func(int) { send() }
			}})
		}
		compare(b, "on=noop/text="+name, ways)
	}
}
