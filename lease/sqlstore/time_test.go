package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedsql/fencedsql/lease"
)

// clocks runs a test in which the database's clock is right, and an hour off either way (case 27): no difference.
func clocks(t *testing.T, run func(t *testing.T, f *fake)) {
	for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
		t.Run(fmt.Sprint(off), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.off = off
				run(t, f)
			})
		})
	}
}

// advance lets time pass, on synctest's clock.
func advance(d time.Duration) { <-time.After(d) }

func isLost(t testing.TB, l interface{ Err() error }, reason error) {
	t.Helper()
	if err := l.Err(); !errors.Is(err, lease.ErrLost) || !errors.Is(err, reason) {
		t.Errorf("Err() = %v, want ErrLost since %v", err, reason)
	}
}

func TestRenewsAtAThird(t *testing.T) {
	clocks(t, func(t *testing.T, f *fake) {
		const ttl = 15 * time.Second
		s := f.open(t, "one")
		h, err := s.Locks("f", ttl).TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		var held *HeldError
		_, err = f.open(t, "two").Locks("f", ttl).TryAcquire(t.Context(), "k")
		if !errors.As(err, &held) || held.Owner != "one" || time.Until(held.Until) != ttl {
			t.Errorf("got %v, %+v", err, held)
		}
		advance(10*ttl + time.Second)
		if n := f.sent(f.text.renew); n != 30 || h.Err() != nil {
			t.Errorf("%d renewals in ten times the ttl, %v", n, h.Err())
		}
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
		advance(ttl)
		if n := f.sent(f.text.renew); n != 30 {
			t.Errorf("%d renewals, some after the release", n-30)
		}
	})
}

// TestEndsHereFirst: whatever time the answers take, the lease ends here before it ends in the database.
func TestEndsHereFirst(t *testing.T) {
	const ttl = 10 * time.Second
	for name, tt := range map[string]struct {
		delay  func(f *fake, text string) time.Duration
		lasts  time.Duration // from before it was asked for; 0 if the lease is not given
		answer bool          // whether the answer is delayed, not the statement
	}{
		"no renewal":          {func(f *fake, text string) time.Duration { return hang(text == f.text.renew) }, lifetime(ttl), false},
		"slow to give":        {func(f *fake, text string) time.Duration { return 7*time.Second + hang(text == f.text.renew) }, lifetime(ttl), false},
		"slow answer":         {func(f *fake, text string) time.Duration { return 7*time.Second + hang(text == f.text.renew) }, lifetime(ttl), true},
		"too slow to give":    {func(f *fake, text string) time.Duration { return 11 * time.Second }, 0, false},
		"second renewal late": {func(f *fake, text string) time.Duration { return hang(text == f.text.renew && f.sent(text) > 1) }, ttl/3 + lifetime(ttl), false},
		"slow renewal": {func(f *fake, text string) time.Duration {
			if n := f.sent(f.text.renew); text == f.text.renew && n == 1 {
				return 2 * time.Second // less than what a renewal may take
			}
			return hang(text == f.text.renew)
		}, ttl/3 + lifetime(ttl), true},
	} {
		t.Run(name, func(t *testing.T) {
			clocks(t, func(t *testing.T, f *fake) {
				s := f.open(t, "one")
				delay := func(ctx context.Context, text string) error { return pause(ctx, tt.delay(f, text)) }
				if f.before(delay); tt.answer {
					f.before(nil)
					f.after(delay)
				}
				sent := time.Now()
				h, err := s.Locks("f", ttl).TryAcquire(t.Context(), "k")
				if tt.lasts == 0 {
					if !errors.Is(err, errLate) {
						t.Errorf("got %v, want errLate", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				ctx := h.Context(t.Context())
				<-ctx.Done()
				if took := time.Since(sent); took != tt.lasts {
					t.Errorf("lasted %v, want %v", took, tt.lasts)
				}
				if now, ends := time.Now(), f.last(); !now.Before(ends) {
					t.Errorf("ended at %v, in the database at %v", now, ends)
				}
				<-h.Done()
				isLost(t, h, errExpired)
				if !errors.Is(context.Cause(ctx), lease.ErrLost) {
					t.Errorf("cause %v", context.Cause(ctx))
				}
			})
		})
	}
}

func hang(yes bool) time.Duration {
	if yes {
		return 24 * time.Hour
	}
	return 0
}

// TestAnHourOff: two programs and the database, each with its own idea of the time, hand a key over.
func TestAnHourOff(t *testing.T) {
	clocks(t, func(t *testing.T, f *fake) {
		const ttl = 10 * time.Second
		one, two := f.open(t, "one"), f.open(t, "two")
		h, err := one.Locks("f", ttl).TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		taken := time.Now()
		one.Close()
		n, err := two.Locks("f", ttl).Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(taken); took < ttl || took > ttl+slowestPoll {
			t.Errorf("a dead holder's key after %v", took)
		}
		isLost(t, h, errExpired)
		if !h.Fence().Less(n.Fence()) {
			t.Error("a fence that is not larger")
		}
	})
}

// TestOutages: errors and silence that are over in time do no harm.
func TestOutages(t *testing.T) {
	const ttl = 15 * time.Second
	for name, fail := range map[string]func(context.Context) error{
		"errors":  func(context.Context) error { return errors.New("connection refused") },
		"silence": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			clocks(t, func(t *testing.T, f *fake) {
				s := f.open(t, "one")
				h, err := s.Locks("f", ttl).TryAcquire(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				f.before(func(ctx context.Context, text string) error {
					if d := time.Since(begun) % (20 * time.Second); d < 8*time.Second { // after 5 s without a renewal, and a retry in 1.2 s
						return fail(ctx)
					}
					return nil
				})
				advance(5 * time.Minute)
				if h.Err() != nil {
					t.Error(h.Err())
				}
				f.before(func(ctx context.Context, text string) error { return fail(ctx) })
				advance(ttl)
				isLost(t, h, errExpired)
				n := f.sent(f.text.renew)
				advance(ttl)
				if f.sent(f.text.renew) != n {
					t.Error("renews a lost lease")
				}
			})
		})
	}
}

// TestOneHangs: one lease's renewal that hangs does not lose the others.
func TestOneHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := f.open(t, "one")
		slow, quick := s.Locks("slow", time.Hour), s.Locks("quick", time.Second)
		hung, err := slow.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		var hanged atomic.Bool
		f.before(func(ctx context.Context, text string) error {
			if text == f.text.renew && time.Since(begun) >= 20*time.Minute && hanged.CompareAndSwap(false, true) {
				<-ctx.Done()
			}
			return nil
		})
		h, err := quick.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		advance(2 * time.Hour)
		if !hanged.Load() || h.Err() != nil || hung.Err() != nil {
			t.Errorf("hung: %v; %v, %v", hanged.Load(), h.Err(), hung.Err())
		}
	})
}

// TestPollsSlowly: at most 20 times a second, and not more often the more wait in one process.
func TestPollsSlowly(t *testing.T) {
	for _, waiters := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			h, err := f.open(t, "one").Locks("f", time.Minute).TryAcquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			locks := f.open(t, "two").Locks("f", time.Minute)
			var wg sync.WaitGroup
			var order []int
			for i := range waiters {
				wg.Go(func() {
					err := locks.Hold(t.Context(), "k", func(context.Context, *lease.Lease) error {
						order = append(order, i)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
			const seconds = 20
			advance(seconds * time.Second)
			polls, writes := f.sent(f.text.look), f.sent(f.text.wait)
			if polls > 20*seconds+1 || polls < seconds {
				t.Errorf("%d polls in %d seconds", polls, seconds)
			}
			if writes > seconds {
				t.Errorf("%d writes in %d seconds", writes, seconds)
			}
			if err := h.Release(t.Context()); err != nil {
				t.Error(err)
			}
			released := time.Now()
			wg.Wait()
			if took := time.Since(released); took > 2*fastestPoll {
				t.Errorf("waited %v for a key that was free", took)
			}
			for i := range order {
				if order[i] != i {
					t.Fatalf("got the key in the order %v", order)
				}
			}
		})
	}
}

// TestTakesTurns: a process that takes the key again as soon as it gave it back lets another one in.
func TestTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		greedy, modest := f.open(t, "greedy").Locks("f", time.Minute), f.open(t, "modest").Locks("f", time.Minute)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for ctx.Err() == nil {
					err := greedy.Hold(ctx, "k", func(context.Context, *lease.Lease) error {
						advance(700 * time.Millisecond)
						return nil
					})
					if err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
		for range 20 {
			begun := time.Now()
			h, err := modest.Acquire(ctx, "k")
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > 3*time.Second {
				t.Errorf("waited %v", took)
			}
			if err := h.Release(ctx); err != nil {
				t.Error(err)
			}
		}
		stop()
		wg.Wait()
	})
}

// TestGivesUp: whoever stops waiting leaves no promise, and a dead one's promise does not last.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		one, two := f.open(t, "one").Locks("f", time.Minute), f.open(t, "two").Locks("f", time.Minute)
		h, err := one.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		why := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		if _, err := two.Acquire(ctx, "k"); !errors.Is(err, why) || !errors.Is(err, lease.ErrHeld) {
			t.Errorf("got %v", err)
		}
		r := f.table[row{"f", "k", 0}]
		if r.waits != 0 {
			t.Error("a promise is left")
		}
		r.waiter, r.waits = []byte("dead"), f.now()+promise.Microseconds()
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		var held *HeldError
		if _, err := one.TryAcquire(t.Context(), "k"); !errors.As(err, &held) || held.Owner != "" || !strings.Contains(held.Error(), "promised") {
			t.Errorf("got %v", err)
		}
		begun := time.Now()
		if _, err := one.Acquire(t.Context(), "k"); err != nil || time.Since(begun) > promise+slowestPoll {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// TestLostAnswer: the lease was taken, but the answer did not come. The next try finds it.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := f.open(t, "one")
		c := s.Locks("f", time.Minute).claim("k")
		first, err := c.try(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.try(t.Context())
		if err != nil || !first.Fence().Less(again.Fence()) {
			t.Errorf("%v, %v after %v", err, again.Fence(), first.Fence())
		}
		c.forget(t.Context())
		if _, err := s.Locks("f", time.Minute).TryAcquire(t.Context(), "k"); err != nil {
			t.Error(err)
		}
		advance(time.Minute)
		isLost(t, first, errTaken)
		isLost(t, again, errTaken)
	})
}

// TestLose: a lease that its holder declares lost is renewed no more. When its renewal is due, the next in the process
// asks the database, which has it until its time is over.
func TestLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Minute
		f := newFake()
		s := f.open(t, "one")
		locks := s.Locks("f", ttl)
		begun := time.Now()
		h, err := locks.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		h.Lose(nil)
		next := make(chan *Held)
		go func() {
			n, err := locks.Acquire(t.Context(), "k")
			if err != nil {
				t.Error(err)
			}
			next <- n
		}()
		advance(ttl/3 + time.Second)
		if f.sent(f.text.renew) != 0 {
			t.Error("renewed")
		}
		if f.sent(f.text.look) == 0 {
			t.Error("its turn was not given back")
		}
		n := <-next
		if took := time.Since(begun); took < ttl || took > ttl+slowestPoll {
			t.Errorf("the next holder came after %v", took)
		}
		if err := h.Release(t.Context()); !errors.Is(err, lease.ErrLost) {
			t.Error(err)
		}
		if n.Err() != nil || f.live() != 1 {
			t.Errorf("%d leases after the late release: %v", f.live(), n.Err())
		}
	})
}

// TestReleaseOfTheLost: the error says so, once, whether the row is another's by now or not; if it is not, it is freed.
func TestReleaseOfTheLost(t *testing.T) {
	reason := errors.New("mine")
	for name, tt := range map[string]struct {
		lose func(f *fake, h *Held)
		want error
		left int
	}{
		"declared":   {func(f *fake, h *Held) { h.Lose(reason) }, reason, 0},
		"not heard":  {func(f *fake, h *Held) { f.before(silence(f.text.renew)); <-h.Done(); f.before(nil) }, errExpired, 0},
		"freed":      {func(f *fake, h *Held) { f.change(h.row, func(r *record) { r.ends = 0 }) }, errTaken, 0},
		"another's":  {func(f *fake, h *Held) { f.change(h.row, func(r *record) { r.count++ }) }, errTaken, 1},
		"heard that": {func(f *fake, h *Held) { f.change(h.row, func(r *record) { r.count++ }); <-h.Done() }, errTaken, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				h, err := f.open(t, "one").Locks("f", time.Minute).TryAcquire(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				tt.lose(f, h)
				if h.Err() != nil { // which it knows without the database
					f.before(func(context.Context, string) error { return errors.New("connection refused") })
					if err := h.Release(t.Context()); !errors.Is(err, lease.ErrLost) || !errors.Is(err, tt.want) {
						t.Errorf("without an answer: %v", err)
					}
					f.before(nil)
				}
				if err := h.Release(t.Context()); !errors.Is(err, lease.ErrLost) || !errors.Is(err, tt.want) {
					t.Errorf("got %v, want ErrLost since %v", err, tt.want)
				}
				if err := h.Release(t.Context()); err != nil {
					t.Errorf("again: %v", err)
				}
				if n := f.live(); n != tt.left {
					t.Errorf("%d leases, want %d", n, tt.left)
				}
			})
		})
	}
}

// silence is a fault: no answer to a text.
func silence(text string) func(context.Context, string) error {
	return func(ctx context.Context, sent string) error {
		if sent == text {
			<-ctx.Done()
		}
		return ctx.Err()
	}
}

// TestReleaseUnheard: the lease was given back, but the answer did not come. It was not lost.
func TestReleaseUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		h, err := f.open(t, "one").Locks("f", time.Minute).TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		broken := errors.New("connection reset")
		f.after(func(context.Context, string) error { return broken })
		if err := h.Release(t.Context()); !errors.Is(err, broken) {
			t.Error(err)
		}
		f.after(nil)
		if f.live() != 0 {
			t.Error("it did not come through")
		}
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestSemaphoreLate: a slot that was given too late is the claim's next one, or free again: a semaphore does not wait
// for itself.
func TestSemaphoreLate(t *testing.T) {
	const ttl, delay = time.Minute, 59500 * time.Millisecond
	for _, n := range []int{1, 5} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			s := f.open(t, "one").Semaphore("s", n, ttl)
			begun := time.Now()
			f.before(func(ctx context.Context, text string) error { // given at the end of its time, here
				if text == f.text.take && f.sent(text) == 1 {
					advance(delay)
				}
				return nil
			})
			h, err := s.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > delay+2*fastestPoll {
				t.Errorf("of %d: a lease after %v", n, took)
			}
			if f.live() != 1 {
				t.Errorf("of %d: %d are taken", n, f.live())
			}
			if err := h.Release(t.Context()); err != nil || f.live() != 0 {
				t.Errorf("of %d: %v, %d are taken", n, err, f.live())
			}

			// The same, and the caller gives up.
			f.before(func(ctx context.Context, text string) error {
				if text == f.text.take {
					advance(delay)
				}
				return nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), 3*delay+time.Second)
			defer cancel()
			if _, err := s.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			advance(delay)
			synctest.Wait()
			if f.live() != 0 {
				t.Errorf("of %d: %d are taken", n, f.live())
			}
		})
	}
}

// TestGivenBackDespiteAnother: what a claim that failed had left is taken back even if the database is busy at first.
func TestGivenBackDespiteAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := f.open(t, "one")
		busy := map[string]bool{f.text.forget: true, f.text.release: true, f.text.list: true}
		f.before(func(ctx context.Context, text string) error {
			if busy[text] {
				delete(busy, text)
				return errors.New("database is locked")
			}
			if text == f.text.take {
				advance(lifetime(time.Second)) // over here, and just given there
			}
			return nil
		})
		if _, err := s.Locks("f", time.Second).TryAcquire(t.Context(), "late"); !errors.Is(err, errLate) {
			t.Error(err)
		}
		if f.live() != 0 {
			t.Error("the late one is taken")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := s.Locks("f", time.Hour).TryAcquire(ctx, "cancelled"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		advance(2 * time.Second)
		if list, err := s.List(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("%v, %v", list, err)
		}
		if len(busy) != 0 {
			t.Error("not all was asked for")
		}
	})
}

// TestOvertaken: a semaphore that has room each time it is looked at is not one that is held.
func TestOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := f.open(t, "one").Semaphore("s", 1, time.Minute)
		const times = 25
		another := func(ends int64) {
			f.change(row{"s", "", 1}, func(r *record) { r.token, r.ends = []byte("another"), ends })
		}
		first, err := s.TryAcquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.before(func(ctx context.Context, text string) error {
			if text == f.text.take && f.sent(text) <= times {
				another(f.now() + 1000)
			}
			return nil
		})
		f.after(func(ctx context.Context, text string) error {
			if text == f.text.look {
				another(0)
			}
			return nil
		})
		if _, err := s.TryAcquire(t.Context()); err != nil {
			t.Error(err)
		}
		if n := f.sent(f.text.take); n != times+1 {
			t.Errorf("%d tries", n)
		}
	})
}

// TestKeyLikeAnError: a key that reads like a busy database is held like any other, and TryAcquire says so at once.
func TestKeyLikeAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		locks := f.open(t, "one").Locks("f", time.Minute)
		const key = "database is locked (SQLITE_BUSY), Error 1213"
		if _, err := locks.TryAcquire(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if _, err := locks.TryAcquire(t.Context(), key); !errors.Is(err, lease.ErrHeld) || time.Since(begun) != 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// TestPanics: wherever the caller's code panics, the lease is given back.
func TestPanics(t *testing.T) {
	nothing := func(context.Context, *lease.Lease) error { return nil }
	for name, hold := range map[string]func(ctx context.Context, l *Locks) error{
		"f": func(ctx context.Context, l *Locks) error { return l.Hold(ctx, "k", nil) },
		"First": func(ctx context.Context, l *Locks) error {
			return l.Hold(ctx, "k", nothing, First(func(context.Context) error { panic("first") }))
		},
		"a nil option":           func(ctx context.Context, l *Locks) error { return l.Hold(ctx, "k", nothing, nil) },
		"a nil First and option": func(ctx context.Context, l *Locks) error { return l.Hold(ctx, "k", nothing, First(nil), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				locks := f.open(t, "one").Locks("f", time.Minute)
				func() {
					defer func() {
						if recover() == nil {
							t.Error("no panic")
						}
					}()
					hold(t.Context(), locks)
				}()
				if f.live() != 0 {
					t.Error("the key is taken")
				}
				if err := locks.Hold(t.Context(), "k", nothing); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := f.open(t, "one")
		locks := s.Locks("f", time.Minute)
		h, err := locks.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		released, err := locks.TryAcquire(t.Context(), "released")
		if err != nil {
			t.Fatal(err)
		}
		f.before(func(ctx context.Context, text string) error {
			return pause(ctx, hang(text == f.text.renew))
		})
		advance(21 * time.Second) // a renewal is on its way
		s.Close()
		s.Close()
		if h.Err() != nil {
			t.Error(h.Err())
		}
		if err := released.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := locks.TryAcquire(t.Context(), "other"); !errors.Is(err, errClosed) {
			t.Error(err)
		}
		if _, err := locks.Acquire(t.Context(), "other"); !errors.Is(err, errClosed) {
			t.Error(err)
		}
		<-h.Done()
		isLost(t, h, errExpired)
	})
}

// TestHeldLeasesAreCheap: they have no goroutine and take about 1 KB each, contexts apart.
func TestHeldLeasesAreCheap(t *testing.T) {
	f := newFake()
	s := f.open(t, "one")
	locks := s.Locks("f", time.Hour)
	const n = 1000
	held := make([]*Held, 0, n)
	hold := func(key string) {
		h, err := locks.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, h)
	}
	hold("warm")
	var before, after runtime.MemStats
	goroutines := runtime.NumGoroutine()
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n - 1 {
		hold(fmt.Sprint(i))
	}
	f.mu.Lock()
	clear(f.table)
	f.table = nil
	f.mu.Unlock()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := runtime.NumGoroutine() - goroutines; grown > 0 {
		t.Errorf("%d goroutines", grown)
	}
	each := (after.HeapAlloc - before.HeapAlloc) / n
	t.Logf("%d bytes for each lease", each)
	if each > 1536 {
		t.Errorf("%d bytes for each lease", each)
	}
	runtime.KeepAlive(held)
}

// TestEightHang: renewals that hang, of long leases, leave room for the others.
func TestEightHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := f.open(t, "one")
		slow, quick := s.Locks("slow", time.Hour), s.Locks("quick", 15*time.Second)
		for i := range atOnce {
			if _, err := slow.TryAcquire(t.Context(), fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		advance(20*time.Minute - 3*time.Second) // they are due at 20 minutes, and this one two seconds later
		h, err := quick.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		var hung atomic.Int32
		f.before(func(ctx context.Context, text string) error {
			if text == f.text.renew && hung.Add(1) <= atOnce {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		advance(time.Minute)
		if hung.Load() <= atOnce || h.Err() != nil {
			t.Errorf("after %d renewals: %v", hung.Load(), h.Err())
		}
	})
}

// TestReleaseAgain: a release that failed can be tried again.
func TestReleaseAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		locks := f.open(t, "one").Locks("f", time.Hour)
		h, err := locks.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Release(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
		if _, err := locks.TryAcquire(t.Context(), "k"); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("not released yet: %v", err)
		}
		for range 2 { // the second does nothing
			if err := h.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if _, err := locks.TryAcquire(t.Context(), "k"); err != nil {
			t.Error(err)
		}
	})
}

// TestCancelledOnTheWay: ctx ends while the lease is asked for. The answer comes later, and the lease is given back.
func TestCancelledOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		locks := f.open(t, "one").Locks("f", time.Hour)
		f.after(func(ctx context.Context, text string) error {
			if text == f.text.take {
				advance(3 * time.Second)
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if _, err := locks.Acquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("Acquire returned after %v", took)
		}
		advance(2*time.Second + time.Millisecond)
		synctest.Wait()
		if f.sent(f.text.release) != 1 {
			t.Error("the lease was not given back")
		}
		f.after(nil)
		if _, err := locks.TryAcquire(t.Context(), "k"); err != nil {
			t.Error(err)
		}
	})
}

func TestTransient(t *testing.T) {
	for text, want := range map[string]bool{
		"Error 1213 (40001): Deadlock found when trying to get lock; try restarting transaction": true,
		"Error 1205 (HY000): Lock wait timeout exceeded; try restarting transaction":             true,
		"database is locked":                                                          true,
		"database is locked (5) (SQLITE_BUSY)":                                        true,
		"database table is locked: fencedsql_leases":                                  true,
		"Error 1290 (HY000): The MySQL server is running with the --read-only option": false,
		"no such table: fencedsql_leases":                                             false,
	} {
		if transient(errors.New(text)) != want {
			t.Errorf("%q", text)
		}
	}
	if transient(nil) {
		t.Error("nil")
	}
}
