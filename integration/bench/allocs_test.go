package bench

import (
	"context"
	"testing"
)

// allocs are the allocations of one call.
func allocs(send func(i int)) float64 {
	i := 0
	send(i)
	return testing.AllocsPerRun(500, func() { i++; send(i) })
}

// TestPassAllocatesNothing compares with the bare driver.
func TestPassAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	for _, s := range unfenced {
		for _, e := range []engine{noop, memory} {
			t.Run(s.name+"/"+e.name, func(t *testing.T) {
				bare, fenced := e.open(t, "bare", nil), e.open(t, "fencedsql", tables(20))
				for call, sends := range map[string][2]func(int){
					"Exec":  {func(int) { passExec(t, ctx, bare, s.exec) }, func(int) { passExec(t, ctx, fenced, s.exec) }},
					"Query": {func(int) { passQuery(t, ctx, bare, s.query) }, func(int) { passQuery(t, ctx, fenced, s.query) }},
				} {
					if want, got := allocs(sends[0]), allocs(sends[1]); got > want {
						t.Errorf("%s: %v allocations, bare %v", call, got, want)
					}
				}
			})
		}
	}
}

// TestFencedAllocates compares with the same write fenced by hand.
func TestFencedAllocates(t *testing.T) {
	for _, e := range []engine{noop, memory} {
		check := func(name string, w fencedWrite, open func(testing.TB, engine, fencedWrite, string) func(int)) {
			t.Run(e.name+"/"+name, func(t *testing.T) {
				want, got := allocs(open(t, e, w, "byhand")), allocs(open(t, e, w, "fencedsql"))
				if got > want {
					t.Errorf("%v allocations, by hand %v", got, want)
				}
			})
		}
		for _, w := range fencedWrites {
			check(w.name, w, direct)
		}
		check("prepared", fencedWrites[0], prepared)
		check("tx", fencedWrites[0], inTx)
	}
}

// TestTwoTablesAllocate: a holder that writes two tables in turns allocates no more than one that writes one.
func TestTwoTablesAllocate(t *testing.T) {
	ctx := holder.Context(context.Background())
	db := noop.open(t, "fencedsql", tables(2))
	send := func(texts ...string) float64 {
		return allocs(func(int) {
			for _, text := range texts {
				if _, err := db.ExecContext(ctx, text, "a summary", 1); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	one, other := `UPDATE chats SET summary = ? WHERE id = ?`, `UPDATE table_0 SET summary = ? WHERE id = ?`
	if want, got := send(one, one), send(one, other); got > want {
		t.Errorf("%v allocations, in one table %v", got, want)
	}
}
