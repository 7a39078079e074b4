package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/lease/sqlstore"
)

const ttl = 10 * time.Minute // longer than patience: what waits for it to be over fails

func TestOneAtATime(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		one, two := v.store(sqlstore.WithOwner("one")).Locks("f", ttl), v.store().Locks("f", time.Hour)
		h := v.must(one.TryAcquire(ctx, "k"))
		if h.Key() != "k" || h.Fence().IsZero() || h.Err() != nil {
			t.Errorf("lease of %q with fence %v: %v", h.Key(), h.Fence(), h.Err())
		}

		_, err := two.TryAcquire(ctx, "k")
		var held *sqlstore.HeldError
		if !errors.Is(err, lease.ErrHeld) || !errors.As(err, &held) {
			t.Fatalf("got %v, want ErrHeld", err)
		}
		if left := time.Until(held.Until); held.Key != "k" || held.Owner != "one" || left > ttl || left < ttl/2 {
			t.Errorf("%+v", held)
		}
		if _, err := one.TryAcquire(ctx, "k"); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("the same store: got %v, want ErrHeld", err)
		}

		v.ok(h.Release(ctx))
		if !errors.Is(h.Err(), lease.ErrLost) || !strings.Contains(h.Err().Error(), "released") {
			t.Errorf("after the release: %v", h.Err())
		}
		next := v.must(two.TryAcquire(ctx, "k"))
		v.larger(next.Fence(), h.Fence())
		v.ok(h.Release(ctx)) // again: nothing
		if next.Err() != nil {
			t.Error(next.Err())
		}
		if _, err := one.TryAcquire(ctx, "k"); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("after a second release: got %v, want ErrHeld", err)
		}
		other := v.must(one.TryAcquire(ctx, "other"))
		v.ok(other.Release(ctx))
		v.ok(next.Release(ctx))
	})
}

// TestLateRelease: a holder whose lease ran out does not free the next one's.
func TestLateRelease(t *testing.T) {
	atOnce(t, all(), func(t *testing.T, v *env) {
		ctx := t.Context()
		late, next := v.store(), v.store()
		h := v.must(late.Locks("f", 200*time.Millisecond).Acquire(ctx, "k"))
		late.Close() // renews no more
		v.ended(h.Done())
		if err := h.Err(); !errors.Is(err, lease.ErrLost) || !strings.Contains(err.Error(), "not renewed in time") {
			t.Error(err)
		}
		n := v.must(next.Locks("f", ttl).Acquire(ctx, "k"))
		v.larger(n.Fence(), h.Fence())
		if err := h.Release(ctx); !errors.Is(err, lease.ErrLost) {
			t.Errorf("late release: %v", err)
		}
		if _, err := next.Locks("f", ttl).TryAcquire(ctx, "k"); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("after a late release: %v", err)
		}
		v.ok(n.Release(ctx))
		if _, err := late.Locks("f", ttl).TryAcquire(ctx, "k"); err == nil || errors.Is(err, lease.ErrHeld) {
			t.Errorf("a closed store gives %v", err)
		}
	})
}

func TestKeysAreExact(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		s := v.store()
		keys := []string{"a", "A", "a ", " a", "ä", "a\u0308", "Ä", "ß", "ss", "", "\x00", "a\x00", "a'b", `a"b`, `a\b`, "?", "$1", "😀", "\u200b",
			strings.Repeat("k", 511), strings.Repeat("k", 512), strings.Repeat("ä", 256)}
		held := map[string]*sqlstore.Held{}
		for _, name := range []string{"f", "F", "f "} {
			locks := s.Locks(name, ttl)
			for _, k := range keys {
				h, err := locks.TryAcquire(t.Context(), k)
				if err != nil {
					t.Fatalf("%q of %q: %v", k, name, err)
				}
				held[name+"/"+k] = h
			}
			for _, k := range keys {
				if _, err := locks.TryAcquire(t.Context(), k); !errors.Is(err, lease.ErrHeld) {
					t.Errorf("%q of %q: %v", k, name, err)
				}
			}
		}
		list, err := s.List(t.Context())
		v.ok(err)
		if len(list) != len(held) {
			t.Errorf("%d leases, want %d", len(list), len(held))
		}
		for _, i := range list {
			h := held[i.Name+"/"+i.Key]
			if h == nil || h.Fence() != i.Fence || i.Owner == "" || time.Since(i.Since) > time.Minute || time.Until(i.Until) > ttl {
				t.Errorf("%+v", i)
			}
		}
		for _, h := range held {
			v.ok(h.Release(t.Context()))
		}
		if list, err := s.List(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("%v, %v", list, err)
		}

		for _, k := range []string{strings.Repeat("k", 513), strings.Repeat("ä", 257), "\xff", "a\xc3", "\xed\xa0\x80"} {
			if _, err := s.Locks("f", ttl).TryAcquire(t.Context(), k); err == nil || errors.Is(err, lease.ErrHeld) {
				t.Errorf("key %.20q: %v", k, err)
			}
			if _, err := s.Locks(k, ttl).Acquire(t.Context(), "k"); err == nil {
				t.Errorf("name %.20q: %v", k, err)
			}
		}
		if _, err := s.Locks("f", time.Millisecond).TryAcquire(t.Context(), "k"); err == nil {
			t.Error("a ttl of 1 ms")
		}
	})
}

func TestHold(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		s := v.store()
		locks := s.Locks("f", ttl)
		free := func() {
			t.Helper()
			h := v.must(locks.TryAcquire(ctx, "k"))
			v.ok(h.Release(ctx))
		}
		errOwn := errors.New("own")
		var inner *lease.Lease
		err := locks.Hold(ctx, "k", func(ctx context.Context, l *lease.Lease) error {
			inner = l
			if found, _ := lease.FromContext(ctx); found != l || l.Err() != nil {
				t.Errorf("context has %v, want %v", found, l)
			}
			if _, err := locks.TryAcquire(context.WithoutCancel(ctx), "k"); !errors.Is(err, lease.ErrHeld) {
				t.Errorf("inside: %v", err)
			}
			return errOwn
		})
		if err != errOwn || inner.Err() == nil {
			t.Errorf("Hold = %v, lease %v", err, inner.Err())
		}
		free()

		func() {
			defer func() {
				if r := recover(); r != "mine" {
					t.Errorf("recovered %v", r)
				}
			}()
			locks.Hold(ctx, "k", func(context.Context, *lease.Lease) error { panic("mine") })
		}()
		free()

		// The context ends: so does the callback's; the lease is released.
		cancelled, cancel := context.WithCancelCause(ctx)
		err = locks.Hold(cancelled, "k", func(ctx context.Context, l *lease.Lease) error {
			cancel(errOwn)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, errOwn) || errors.Is(err, lease.ErrLost) {
			t.Error(err)
		}
		free()

		// Freed behind its back: the renewal finds out.
		short := s.Locks("f", 600*time.Millisecond)
		err = short.Hold(ctx, "k", func(ctx context.Context, l *lease.Lease) error {
			v.do("UPDATE fencedsql_leases SET ends = 0")
			v.ended(ctx.Done())
			if !errors.Is(context.Cause(ctx), lease.ErrLost) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			return errOwn
		})
		if !errors.Is(err, errOwn) || !errors.Is(err, lease.ErrLost) {
			t.Error(err)
		}
		err = locks.Hold(ctx, "k", func(ctx context.Context, l *lease.Lease) error {
			v.do("UPDATE fencedsql_leases SET ends = 0")
			return nil
		})
		if !errors.Is(err, lease.ErrLost) {
			t.Errorf("lost before the release: %v", err)
		}
		free()

		// First runs first, under the lease.
		var order []string
		first := func(err error) sqlstore.HoldOption {
			return sqlstore.First(func(ctx context.Context) error {
				if _, ok := lease.FromContext(ctx); !ok {
					t.Error("First has no lease")
				}
				order = append(order, "first")
				return err
			})
		}
		f := func(context.Context, *lease.Lease) error { order = append(order, "work"); return nil }
		v.ok(locks.Hold(ctx, "k", f, first(nil)))
		if err := locks.Hold(ctx, "k", f, first(errOwn)); err != errOwn {
			t.Error(err)
		}
		if !slices.Equal(order, []string{"first", "work", "first"}) {
			t.Error(order)
		}
		free()
	})
}

// TestRenewal: a lease lives longer than its ttl, while another waits for it.
func TestRenewal(t *testing.T) {
	atOnce(t, all(), func(t *testing.T, v *env) {
		const ttl = 6 * time.Second
		s := v.store()
		locks, other := s.Locks("f", ttl), v.store().Locks("f", ttl)
		h := v.must(locks.TryAcquire(t.Context(), "k"))
		v.refused(other, "k")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waited := make(chan error, 1)
		go func() {
			_, err := other.Acquire(ctx, "k")
			waited <- err
		}()
		for range 4 { // the last at 8 s, where it would be over without those before
			v.renewed(s, h.Lease, ttl)
			v.ok(h.Err())
		}
		v.ok(h.Err())
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) || !errors.Is(err, lease.ErrHeld) {
			t.Errorf("got %v, want that it was cancelled and ErrHeld", err)
		}
		v.ok(h.Release(t.Context()))
		// The one who gave up left no promise behind.
		v.ok(v.must(locks.TryAcquire(t.Context(), "k")).Release(t.Context()))
	})
}

// TestWaitersTakeTurns: ten who wait get the key while another process wants it all the time.
func TestWaitersTakeTurns(t *testing.T) {
	eachDialect(t, func(t *testing.T, v *env) {
		greedy := v.store().Locks("f", ttl)
		ctx := v.within(3 * patience)
		var holders atomic.Int32
		var last lease.Fence
		hold := func(l *sqlstore.Locks, work time.Duration) error {
			return l.Hold(ctx, "k", func(ctx context.Context, l *lease.Lease) error {
				if holders.Add(1) != 1 {
					t.Error("two holders")
				}
				v.larger(l.Fence(), last)
				last = l.Fence()
				pause(ctx, work)
				holders.Add(-1)
				return nil
			})
		}
		var wg, waiting sync.WaitGroup
		done := make(chan struct{})
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := hold(greedy, 60*time.Millisecond); err != nil {
					t.Error(err)
					return
				}
			}
		})
		begun := time.Now()
		for range 5 {
			s := v.store()
			for range 2 {
				waiting.Go(func() {
					if err := hold(s.Locks("f", ttl), 0); err != nil {
						t.Error(err)
					}
				})
			}
		}
		waiting.Wait()
		t.Logf("ten waiters of five processes after %v", time.Since(begun).Round(time.Millisecond))
		close(done)
		wg.Wait()
	})
}

func TestSemaphore(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		const n = 3
		one, two := v.store(sqlstore.WithOwner("one")).Semaphore("s", n, ttl), v.store().Semaphore("s", n, ttl)
		var held []*sqlstore.Held
		for i := range n {
			h := v.must([]*sqlstore.Semaphore{one, two}[i%2].TryAcquire(ctx))
			if h.Key() != "s" || !h.Fence().IsZero() {
				t.Errorf("lease of %q with fence %v", h.Key(), h.Fence())
			}
			held = append(held, h)
		}
		var e *sqlstore.HeldError
		if _, err := two.TryAcquire(ctx); !errors.As(err, &e) || e.Key != "s" || e.Owner == "" {
			t.Errorf("the fourth of three: %v", err)
		}
		got := make(chan *sqlstore.Held)
		go func() {
			h, err := two.Acquire(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		v.ok(held[1].Release(ctx))
		held[1] = <-got
		for _, h := range held {
			v.ok(h.Release(ctx))
		}

		var at, most atomic.Int32
		var wg sync.WaitGroup
		for i := range 9 {
			wg.Go(func() {
				err := []*sqlstore.Semaphore{one, two}[i%2].Hold(ctx, func(context.Context, *lease.Lease) error {
					now := at.Add(1)
					for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
					}
					at.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most.Load() > n {
			t.Errorf("%d at once", most.Load())
		}
		// Locks of the same name are other leases.
		s := v.store()
		lock := v.must(s.Locks("s", ttl).Acquire(v.within(patience), ""))
		single := v.must(s.Semaphore("s", 1, ttl).Acquire(v.within(patience)))
		v.ok(lock.Release(ctx))
		v.ok(single.Release(ctx))
		for _, n := range []int{0, -1, 10_001} {
			if _, err := v.store().Semaphore("s", n, ttl).TryAcquire(ctx); err == nil {
				t.Errorf("a semaphore of %d", n)
			}
		}
	})
}

// TestRestoredFromBackup: the epoch makes up for the counts that are gone; so does RaiseAbove, without a clock.
func TestRestoredFromBackup(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		take := func(s *sqlstore.Store) lease.Fence {
			t.Helper()
			h := v.must(s.Locks("f", ttl).TryAcquire(ctx, "k"))
			v.ok(h.Release(ctx))
			return h.Fence()
		}
		first := v.store()
		before := take(first)
		opened := take(v.store())
		v.larger(opened, before)
		if opened.Epoch <= before.Epoch {
			t.Errorf("epoch %d after %d", opened.Epoch, before.Epoch)
		}
		if age := time.Since(time.UnixMilli(int64(before.Epoch))); age.Abs() > time.Minute {
			t.Errorf("the epoch is %v from now", age)
		}

		// Where the epoch is ahead of the clock already, it goes up by one.
		v.do("UPDATE fencedsql_epoch SET epoch = epoch + 1000000000")
		if f := take(v.store()); f.Epoch != opened.Epoch+1000000001 {
			t.Errorf("epoch %d after %d + 1000000000", f.Epoch, opened.Epoch)
		}
		if age := time.Since(time.UnixMicro(int64(opened.Count))); v.dialect != "postgres" && age.Abs() > time.Minute {
			t.Errorf("the count is %v from now", age)
		}

		v.do("DELETE FROM fencedsql_leases")
		v.do("UPDATE fencedsql_epoch SET epoch = 0")
		for time.Now().UnixMilli() <= int64(opened.Epoch) { // the clock must be past it
		}
		v.larger(take(v.store()), opened)

		// The clock was far ahead when the lost leases were given.
		ahead := lease.Fence{Epoch: before.Epoch + 1e9, Count: 1 << 60}
		v.do("DELETE FROM fencedsql_leases")
		v.do("UPDATE fencedsql_epoch SET epoch = 0")
		again := v.store()
		v.ok(again.RaiseAbove(ctx, ahead))
		v.larger(take(first), ahead) // from any store
		v.ok(again.RaiseAbove(ctx, lease.Fence{Epoch: 1}))
		v.larger(take(again), ahead)
		if err := again.RaiseAbove(ctx, lease.Fence{Epoch: 1<<63 - 1}); !errors.Is(err, lease.ErrOverflow) {
			t.Error(err)
		}
		v.larger(take(v.store()), ahead)
	})
}

// TestHoldInHold of the same key would wait for itself.
func TestHoldInHold(t *testing.T) {
	eachDialect(t, func(t *testing.T, v *env) {
		s := v.store()
		locks := s.Locks("f", ttl)
		nothing := func(context.Context, *lease.Lease) error { return nil }
		err := locks.Hold(t.Context(), "k", func(ctx context.Context, _ *lease.Lease) error {
			return locks.Hold(ctx, "other", func(ctx context.Context, _ *lease.Lease) error {
				return errors.Join(s.Locks("g", ttl).Hold(ctx, "k", nothing), s.Locks("f", ttl).Hold(ctx, "k", nothing))
			})
		})
		if !errors.Is(err, lease.ErrHeld) || !strings.Contains(err.Error(), "whose context this is") {
			t.Error(err)
		}
		var outer context.Context
		v.ok(locks.Hold(t.Context(), "k", func(ctx context.Context, _ *lease.Lease) error {
			outer = context.WithoutCancel(ctx)
			return nil
		}))
		v.ok(locks.Hold(outer, "k", nothing)) // when that Hold is over
	})
}

// TestPromise: a key that is held is promised to one who waits, and to nobody else meanwhile; once that one has had it,
// it is free again.
func TestPromise(t *testing.T) {
	atOnce(t, all(), func(t *testing.T, v *env) {
		ctx := t.Context()
		holder, first, second := v.store().Locks("f", ttl), v.store().Locks("f", ttl), v.store().Locks("f", ttl)
		h := v.must(holder.TryAcquire(ctx, "k"))
		got := make(chan *sqlstore.Held, 1)
		go func() {
			h, err := first.Acquire(ctx, "k")
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		db := v.open()
		var promised []byte
		v.eventually("the key is promised", func() bool {
			v.ok(db.QueryRow("SELECT waiter FROM fencedsql_leases").Scan(&promised))
			return len(promised) > 0
		})
		isPromised := func() bool {
			var now []byte
			err := db.QueryRow("SELECT waiter FROM fencedsql_leases").Scan(&now)
			return err != nil || slices.Equal(now, promised)
		}
		refused := func() (kept bool) { // and the promise stays meanwhile
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			watched := make(chan bool)
			go func() {
				kept := isPromised()
				for ctx.Err() == nil {
					pause(ctx, 5*time.Millisecond)
					kept = kept && isPromised()
				}
				watched <- kept
			}()
			v.refused(second, "k")
			cancel()
			return <-watched
		}
		for stolen := 0; !refused(); stolen++ { // rightly so, after two seconds in which this process stood still
			if stolen == 3 {
				t.Fatal("the promise was stolen")
			}
			v.eventually("the key is promised again", isPromised)
		}
		v.ok(h.Release(ctx))
		if n := <-got; n != nil {
			v.ok(n.Release(ctx))
		}
		v.ok(v.must(second.TryAcquire(ctx, "k")).Release(ctx))
	})
}

// TestCancelled: whatever ctx breaks off, no key stays taken.
func TestCancelled(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		s, other := v.store(), v.store()
		locks := s.Locks("f", ttl)
		v.ok(v.must(locks.TryAcquire(t.Context(), "warm")).Release(t.Context()))
		for i := range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(2*time.Millisecond))
			h, err := locks.Acquire(ctx, fmt.Sprint(i))
			cancel()
			if err == nil {
				v.ok(h.Release(t.Context()))
			}
		}
		v.eventually("all keys are free", func() bool {
			list, err := other.List(t.Context())
			v.ok(err)
			return len(list) == 0
		})
	})
}

// TestAutocommitOff: what is not committed is no lease.
func TestAutocommitOff(t *testing.T) {
	for _, e := range engines {
		if e.name != "mariadb" || !chosen(e) {
			continue
		}
		v := &env{t, e, e.create(t)}
		v.store()
		off := *v
		off.dsn += "?autocommit=0"
		if _, err := sqlstore.Open(t.Context(), off.open()); err == nil || !strings.Contains(err.Error(), "autocommit") {
			t.Errorf("Open: %v", err)
		}
	}
}

// TestOneOrder: of any two leases of the store the later has the larger fence, whatever their keys, and no two are equal.
// Stores that open meanwhile raise the epoch.
func TestOneOrder(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		const stores, goroutines, leases = 3, 3, 12
		type span struct {
			asked, got int64
			fence      lease.Fence
		}
		var clock atomic.Int64
		var mu sync.Mutex
		var spans []span
		var wg sync.WaitGroup
		for range stores {
			locks := v.store().Locks("f", ttl)
			for range goroutines {
				wg.Go(func() {
					for i := range leases {
						key := fmt.Sprint(rand.IntN(5))
						asked := clock.Add(1)
						h, err := locks.Acquire(t.Context(), key)
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						spans = append(spans, span{asked, clock.Add(1), h.Fence()})
						mu.Unlock()
						if err := h.Release(t.Context()); err != nil {
							t.Error(err)
						}
						if i == leases/2 {
							v.store()
						}
					}
				})
			}
		}
		wg.Wait()
		if len(spans) != stores*goroutines*leases {
			t.Fatalf("%d leases", len(spans))
		}
		for _, a := range spans {
			for _, b := range spans {
				if a.got < b.asked && !a.fence.Less(b.fence) || a != b && a.fence == b.fence {
					t.Errorf("%v at %d, and later, at %d, %v", a.fence, a.got, b.asked, b.fence)
				}
			}
		}
	})
}

// TestOrderWithoutClock: the order is kept when the database's clock is set back, and when it stands still.
func TestOrderWithoutClock(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		locks := v.store().Locks("f", ttl)
		take := func(key string) lease.Fence {
			t.Helper()
			h := v.must(locks.TryAcquire(t.Context(), key))
			v.ok(h.Release(t.Context()))
			return h.Fence()
		}
		last := take("a")
		// What was given before was given at a time that is still to come.
		const ahead = 1_000_000_000_000
		v.do("UPDATE fencedsql_leases SET counter = counter + ?", ahead)
		switch v.dialect {
		case "mysql":
			v.do("UPDATE fencedsql_epoch SET counter = counter + ?", ahead)
		case "postgres":
			v.do(fmt.Sprintf("ALTER SEQUENCE fencedsql_leases_counter_seq RESTART %d", last.Count+ahead+1))
		}
		last.Count += ahead
		for i := range 20 {
			next := take(fmt.Sprint(i % 3))
			v.larger(next, last)
			last = next
		}
	})
}

// TestRowAhead: a row with a larger fence than the next one, which no running store leaves, gets a larger one yet.
func TestRowAhead(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		locks := v.store().Locks("f", ttl)
		h := v.must(locks.TryAcquire(t.Context(), "k"))
		v.ok(h.Release(t.Context()))
		v.do("UPDATE fencedsql_leases SET epoch = epoch + 1000000000")
		n := v.must(locks.TryAcquire(t.Context(), "k"))
		v.larger(n.Fence(), lease.Fence{Epoch: h.Fence().Epoch + 1000000000, Count: h.Fence().Count})
		v.larger(v.must(locks.TryAcquire(t.Context(), "other")).Fence(), n.Fence())
	})
}

// TestServerOfBefore: where the count may be behind on another server, the epoch goes on with the first lease there.
func TestServerOfBefore(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		if v.dialect != "postgres" {
			return // their counts go on with the clock
		}
		s := v.store()
		locks := s.Locks("f", ttl)
		h := v.must(locks.TryAcquire(t.Context(), "k"))
		v.ok(h.Release(t.Context()))
		v.do("UPDATE fencedsql_epoch SET server = server - 1")
		v.do("ALTER SEQUENCE fencedsql_leases_counter_seq RESTART 1")
		for _, key := range []string{"k", "new"} {
			n := v.must(locks.TryAcquire(t.Context(), key))
			v.larger(n.Fence(), h.Fence())
			if n.Fence().Epoch <= h.Fence().Epoch {
				t.Errorf("epoch %d after %d", n.Fence().Epoch, h.Fence().Epoch)
			}
			h = n
			v.do("UPDATE fencedsql_epoch SET server = server - 1")
		}
	})
}

func TestTenOpenAtOnce(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		var wg sync.WaitGroup
		for i := range 10 {
			db := v.open()
			wg.Go(func() {
				s, err := sqlstore.Open(t.Context(), db)
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				if err := s.Migrate(t.Context()); err != nil {
					t.Error(err)
				}
				h, err := s.Locks("f", ttl).TryAcquire(t.Context(), fmt.Sprint(i))
				if err != nil {
					t.Error(err)
					return
				}
				if err := h.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

func TestNames(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		opts := []sqlstore.Option{sqlstore.WithPrefix("My_")}
		if v.schema {
			v.do(`CREATE SCHEMA "Locks"`)
			opts = append(opts, sqlstore.WithSchema("Locks"))
		}
		if _, err := sqlstore.Open(ctx, v.open(), append(opts, sqlstore.WithoutMigrate())...); err == nil {
			t.Error("opened without tables")
		}
		ddl, err := sqlstore.DDL(v.dialect, opts...)
		v.ok(err)
		for range 2 {
			for _, text := range ddl {
				v.do(text)
			}
		}
		mine := v.store(append(opts, sqlstore.WithoutMigrate(), sqlstore.WithDialect(v.dialect))...)
		other := v.store()
		for _, s := range []*sqlstore.Store{mine, other} {
			v.must(s.Locks("f", ttl).TryAcquire(ctx, "k"))
			if list, err := s.List(ctx); err != nil || len(list) != 1 {
				t.Errorf("%v, %v", list, err)
			}
			v.ok(s.RaiseAbove(ctx, lease.Fence{}))
		}
		v.do("UPDATE fencedsql_epoch SET version = 2")
		if _, err := sqlstore.Open(ctx, v.open()); err == nil || !strings.Contains(err.Error(), "version 2") {
			t.Errorf("tables of version 2: %v", err)
		}
		if _, err := sqlstore.Open(ctx, v.open(), sqlstore.WithoutMigrate()); err == nil {
			t.Error("tables of version 2")
		}
	})
	for _, bad := range []sqlstore.Option{sqlstore.WithPrefix(`a"b`), sqlstore.WithPrefix("a`b"), sqlstore.WithSchema("a.b"), sqlstore.WithSchema(""),
		sqlstore.WithPrefix(strings.Repeat("a", 41)), sqlstore.WithOwner("\xff"), sqlstore.WithOwner("a\x00"), sqlstore.WithDialect("oracle")} {
		if _, err := sqlstore.DDL("sqlite", bad); err == nil {
			t.Error("a bad option")
		}
	}
}

// TestTwoTimesToLive: two programs that disagree about the ttl.
func TestTwoTimesToLive(t *testing.T) {
	atOnce(t, all(), func(t *testing.T, v *env) {
		ctx := t.Context()
		short, long := v.store().Locks("f", 15*time.Second), v.store().Locks("f", time.Hour)
		for range 3 {
			a := v.must(short.Acquire(ctx, "k"))
			if _, err := long.TryAcquire(ctx, "k"); !errors.Is(err, lease.ErrHeld) {
				t.Error(err)
			}
			v.ok(a.Release(ctx))
			b := v.must(long.Acquire(ctx, "k"))
			v.refused(short, "k")
			v.larger(b.Fence(), a.Fence())
			v.ok(b.Release(ctx))
		}
	})
}
