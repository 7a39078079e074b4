package lease

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type ctxKey string

var errWhy = errors.New("why")

func (l *Lease) jointCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.joints)
}

func live(t *testing.T, c context.Context) {
	t.Helper()
	select {
	case <-c.Done():
		t.Fatalf("%v is done", c)
	default:
	}
	if c.Err() != nil || context.Cause(c) != nil {
		t.Fatalf("%v has the error %v and the cause %v", c, c.Err(), context.Cause(c))
	}
}

func ended(t *testing.T, c context.Context, err, cause error) {
	t.Helper()
	select {
	case <-c.Done():
	default:
		t.Fatalf("%v is not done", c)
	}
	if c.Err() != err {
		t.Errorf("%v has the error %v, want %v", c, c.Err(), err)
	}
	if got := context.Cause(c); !errors.Is(got, cause) {
		t.Errorf("%v has the cause %v, want %v", c, got, cause)
	}
}

func TestLease(t *testing.T) {
	l := New("chat/42", Fence{1, 7})
	if l.Key() != "chat/42" || l.Fence() != (Fence{1, 7}) || l.Err() != nil {
		t.Errorf("New: %q, %v, %v", l.Key(), l.Fence(), l.Err())
	}
	select {
	case <-l.Done():
		t.Error("done while held")
	default:
	}
	if _, ok := FromContext(t.Context()); ok {
		t.Error("a context without a lease has one")
	}
	c := l.Context(t.Context())
	if got, ok := FromContext(c); got != l || !ok {
		t.Errorf("FromContext = %v, %t", got, ok)
	}
	if s := fmt.Sprint(c); s != `lease.Context("chat/42")` {
		t.Errorf("prints as %s", s)
	}
}

func TestNilLease(t *testing.T) {
	var l *Lease
	l.Lose(errWhy)
	if l.Key() != "" || !l.Fence().IsZero() || l.Err() != nil || l.Done() != nil {
		t.Errorf("nil lease: %q, %v, %v, %v", l.Key(), l.Fence(), l.Err(), l.Done())
	}
	c := l.Context(t.Context())
	if c != t.Context() {
		t.Error("a nil lease changes the context")
	}
	if got, ok := FromContext(c); got != nil || ok {
		t.Errorf("FromContext = %v, %t", got, ok)
	}
}

func TestNilContextPanics(t *testing.T) {
	for _, l := range []*Lease{nil, New("k", Fence{})} {
		func() {
			defer func() {
				if msg := fmt.Sprint(recover()); !strings.Contains(msg, "nil parent") {
					t.Errorf("panics with %q", msg)
				}
			}()
			var none context.Context
			l.Context(none)
		}()
	}
}

func TestLose(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := New("chat/42", Fence{})
	contexts := []context.Context{l.Context(parent), l.Context(context.Background()), l.Context(context.TODO())}
	for _, c := range contexts {
		live(t, c)
	}

	l.Lose(errWhy)
	<-l.Done()
	err := l.Err()
	if !errors.Is(err, ErrLost) || !errors.Is(err, errWhy) || !strings.Contains(err.Error(), "chat/42") {
		t.Errorf("Err() = %v", err)
	}
	for _, c := range contexts {
		ended(t, c, context.Canceled, ErrLost)
		ended(t, c, context.Canceled, errWhy)
	}
	l.Lose(errors.New("again"))
	l.Lose(nil)
	if l.Err() != err {
		t.Errorf("Err() = %v after a second Lose, want the first reason: %v", l.Err(), err)
	}
	if parent.Err() != nil {
		t.Error("a lost lease ends the parent")
	}

	for _, ctx := range []context.Context{context.Background(), parent} {
		late := l.Context(ctx)
		ended(t, late, context.Canceled, errWhy)
		if got, ok := FromContext(late); got != l || !ok {
			t.Errorf("FromContext = %v, %t", got, ok)
		}
	}
	if n := l.jointCount(); n != 0 {
		t.Errorf("%d joints of a lost lease", n)
	}
	cancel()
	ended(t, l.Context(parent), context.Canceled, context.Canceled)
}

func TestLoseWithoutReason(t *testing.T) {
	l := New("k", Fence{})
	c := l.Context(t.Context())
	l.Lose(nil)
	if err := l.Err(); !errors.Is(err, ErrLost) {
		t.Errorf("Err() = %v", err)
	}
	ended(t, c, context.Canceled, ErrLost)
}

func TestParentEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		parent func(context.Context) (context.Context, func())
		err    error
		cause  error
	}{
		"cancel": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancel(ctx)
			return ctx, cancel
		}, context.Canceled, context.Canceled},
		"cause": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(errWhy) }
		}, context.Canceled, errWhy},
		"grandparent": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			ctx, cancelInner := context.WithCancel(context.WithValue(ctx, ctxKey("a"), 1))
			return context.WithValue(ctx, ctxKey("b"), 2), func() { cancel(errWhy); cancelInner() }
		}, context.Canceled, errWhy},
		"embedded": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return struct{ context.Context }{ctx}, func() { cancel(errWhy) }
		}, context.Canceled, errWhy},
	} {
		t.Run(name, func(t *testing.T) {
			l := New("k", Fence{})
			parent, end := tt.parent(context.Background())
			defer end()
			c := l.Context(parent)
			derived, cancel := context.WithTimeout(c, time.Hour)
			defer cancel()
			live(t, derived)

			end() // and at once, as with the contexts of the standard library:
			ended(t, c, tt.err, tt.cause)
			ended(t, derived, tt.err, tt.cause)
			ended(t, l.Context(parent), tt.err, tt.cause)
			if got, want := context.Cause(c), context.Cause(parent); got != want {
				t.Errorf("cause %v, the parent's is %v", got, want)
			}
			if l.Err() != nil {
				t.Errorf("the end of a context lost the lease: %v", l.Err())
			}
			live(t, l.Context(context.Background()))
		})
	}
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New("k", Fence{})
		deadline := time.Now().Add(time.Minute)
		parent, cancel := context.WithDeadlineCause(context.Background(), deadline, errWhy)
		defer cancel()
		c := l.Context(parent)
		if got, ok := c.Deadline(); !got.Equal(deadline) || !ok {
			t.Errorf("Deadline() = %v, %t; want %v", got, ok, deadline)
		}
		if _, ok := l.Context(context.Background()).Deadline(); ok {
			t.Error("a deadline from nowhere")
		}

		short, cancelShort := context.WithTimeout(c, time.Second)
		defer cancelShort()
		long, cancelLong := context.WithTimeout(c, time.Hour)
		defer cancelLong()
		if got, _ := long.Deadline(); !got.Equal(deadline) {
			t.Errorf("a derived context has the deadline %v, want the parent's %v", got, deadline)
		}
		<-short.Done()
		ended(t, short, context.DeadlineExceeded, context.DeadlineExceeded)
		live(t, c)

		<-c.Done()
		if now := time.Now(); !now.Equal(deadline) {
			t.Errorf("ended at %v, want %v", now, deadline)
		}
		ended(t, c, context.DeadlineExceeded, errWhy)
		ended(t, long, context.DeadlineExceeded, errWhy)
		ended(t, l.Context(parent), context.DeadlineExceeded, errWhy)
		synctest.Wait()
		if n := l.jointCount(); n != 1 { // that of context.Background
			t.Errorf("%d joints left", n)
		}
	})
}

func TestDerivedContexts(t *testing.T) {
	l := New("k", Fence{})
	c := l.Context(t.Context())
	own, cancelOwn := context.WithCancelCause(c)
	defer cancelOwn(nil)
	timed, cancel := context.WithTimeout(context.WithValue(c, ctxKey("a"), 1), time.Hour)
	defer cancel()
	detached := context.WithoutCancel(c)

	errOwn := errors.New("own")
	cancelOwn(errOwn)
	ended(t, own, context.Canceled, errOwn)
	live(t, c)
	live(t, timed)

	ran := make(chan struct{})
	context.AfterFunc(c, func() { close(ran) })
	l.Lose(errWhy)
	ended(t, timed, context.Canceled, errWhy)
	if err := context.Cause(own); err != errOwn {
		t.Errorf("cause %v, want the first: %v", err, errOwn)
	}
	<-ran
	if detached.Err() != nil || context.Cause(detached) != nil || detached.Done() != nil {
		t.Error("a detached context ends with the lease")
	}
	if got, ok := FromContext(detached); got != l || !ok {
		t.Error("a detached context has lost its lease")
	}
	ended(t, l.Context(detached), context.Canceled, ErrLost)
}

// TestValues: contexts that share a joint do not share values.
func TestValues(t *testing.T) {
	parent, cancel := context.WithCancel(context.WithValue(context.Background(), ctxKey("shared"), "s"))
	defer cancel()
	other, cancelOther := context.WithCancel(context.Background())
	defer cancelOther()
	l := New("k", Fence{})
	first := l.Context(context.WithValue(context.WithValue(parent, ctxKey("own"), 1), ctxKey("first"), other))
	second := l.Context(context.WithValue(context.WithValue(parent, ctxKey("own"), 2), ctxKey("shared"), "over"))
	plain := l.Context(parent)
	if first.Done() != second.Done() || first.Done() != plain.Done() {
		t.Error("contexts of one parent do not share their end")
	}
	for _, tt := range []struct {
		c    context.Context
		key  any
		want any
	}{
		{first, ctxKey("own"), 1},
		{first, ctxKey("shared"), "s"},
		{first, ctxKey("first"), other},
		{second, ctxKey("own"), 2},
		{second, ctxKey("shared"), "over"},
		{second, ctxKey("first"), nil},
		{plain, ctxKey("own"), nil},
		{plain, ctxKey("first"), nil},
		{plain, []int{}, nil},
		{plain, nil, nil},
		{l.Context(context.WithValue(context.Background(), ctxKey("own"), 3)), ctxKey("own"), 3},
		{l.Context(context.Background()), ctxKey("own"), nil},
	} {
		if got := tt.c.Value(tt.key); got != tt.want {
			t.Errorf("Value(%v) = %v, want %v", tt.key, got, tt.want)
		}
	}
}

func TestNesting(t *testing.T) {
	for name, lose := range map[string]func(outer, inner *Lease){
		"outer": func(outer, _ *Lease) { outer.Lose(errWhy) },
		"inner": func(_, inner *Lease) { inner.Lose(errWhy) },
	} {
		t.Run(name, func(t *testing.T) {
			outer, inner := New("outer", Fence{0, 1}), New("inner", Fence{0, 2})
			c := outer.Context(t.Context())
			cc := inner.Context(c)
			if l, _ := FromContext(cc); l != inner {
				t.Errorf("found %v, want the inner lease", l)
			}
			if l, _ := FromContext(c); l != outer {
				t.Errorf("found %v, want the outer lease", l)
			}
			live(t, cc)
			lose(outer, inner)
			ended(t, cc, context.Canceled, ErrLost)
			ended(t, cc, context.Canceled, errWhy)
			if l, _ := FromContext(cc); l != inner {
				t.Errorf("found %v after the loss, want the inner lease", l)
			}
			if name == "inner" {
				live(t, c)
			}
		})
	}
	// The same lease twice is no harm.
	l := New("k", Fence{})
	c := l.Context(l.Context(t.Context()))
	live(t, c)
	l.Lose(errWhy)
	ended(t, c, context.Canceled, errWhy)
}

// ownDone is a context whose Done channel is its own, which the standard library watches with a goroutine.
type ownDone struct {
	context.Context
	done chan struct{}

	mu  sync.Mutex
	err error
}

func (c *ownDone) Done() <-chan struct{} { return c.done }

func (c *ownDone) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *ownDone) end(err error) {
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	close(c.done)
}

func TestOwnDone(t *testing.T) {
	for name, inside := range map[string]func() (context.Context, context.CancelFunc){
		"background": func() (context.Context, context.CancelFunc) { return context.Background(), func() {} },
		"cancel":     func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base, cancel := inside()
				defer cancel()
				parent := &ownDone{Context: context.WithValue(base, ctxKey("a"), 1), done: make(chan struct{})}
				l, lost := New("k", Fence{}), New("lost", Fence{})
				c, d := l.Context(parent), lost.Context(context.WithValue(parent, ctxKey("b"), 2))
				if c.Value(ctxKey("a")) != 1 || d.Value(ctxKey("b")) != 2 || c.Value(ctxKey("b")) != nil {
					t.Error("wrong values")
				}
				lost.Lose(errWhy)
				ended(t, d, context.Canceled, errWhy)
				live(t, c)
				cancel() // of what it wraps: not its end
				synctest.Wait()
				live(t, c)

				errOwn := errors.New("an error of its own")
				parent.end(errOwn)
				ended(t, l.Context(parent), errOwn, context.Cause(parent)) // even before the goroutine has seen it
				synctest.Wait()
				if c.Err() != errOwn {
					t.Errorf("Err() = %v, want %v", c.Err(), errOwn)
				}
				if n := l.jointCount(); n != 0 {
					t.Errorf("%d joints left", n)
				}
			})
		})
	}
}

// hooked is a context whose methods call the lease: a stand-in for one with a lock that others hold while they do.
type hooked struct {
	context.Context
	hook func(method string)
}

func (c *hooked) Done() <-chan struct{} { c.hook("Done"); return c.Context.Done() }
func (c *hooked) Err() error            { c.hook("Err"); return c.Context.Err() }
func (c *hooked) Value(key any) any     { c.hook("Value"); return c.Context.Value(key) }

// TestParentCallsLease: no method of a parent is called with the lease's lock held, and what happens to the lease
// meanwhile is noticed.
func TestParentCallsLease(t *testing.T) {
	newParent := func() *ownDone {
		return &ownDone{Context: context.Background(), done: make(chan struct{})}
	}
	meanwhile := func(f func()) func(string) { // between the two looks that Context takes at the lease
		var once sync.Once
		return func(method string) {
			if method == "Value" {
				once.Do(f)
			}
		}
	}
	t.Run("Err", func(t *testing.T) {
		l := New("k", Fence{})
		parent := &hooked{newParent(), func(string) { _ = l.Err() }}
		c := l.Context(parent)
		live(t, c)
		l.Lose(errWhy)
		ended(t, c, context.Canceled, errWhy)
		ended(t, l.Context(parent), context.Canceled, errWhy)
	})
	t.Run("Context", func(t *testing.T) {
		l, parent := New("k", Fence{}), newParent()
		var inner context.Context
		c := l.Context(&hooked{parent, meanwhile(func() { inner = l.Context(parent) })})
		if c.Done() != inner.Done() || l.jointCount() != 1 {
			t.Error("two joints for one Done channel")
		}
		live(t, c)
		l.Lose(errWhy)
		ended(t, c, context.Canceled, errWhy)
	})
	t.Run("Lose", func(t *testing.T) {
		l := New("k", Fence{})
		c := l.Context(&hooked{newParent(), meanwhile(func() { l.Lose(errWhy) })})
		ended(t, c, context.Canceled, errWhy)
	})
}

// TestContextKeepsNothing: a lease's contexts, one per statement, take no memory in the lease or in a parent that lives
// as long, and no goroutine.
func TestContextKeepsNothing(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := New("k", Fence{})
	defer l.Lose(nil)
	goroutines := runtime.NumGoroutine()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 100_000 {
		for _, ctx := range []context.Context{parent, context.Background()} {
			c := l.Context(context.WithValue(ctx, ctxKey("statement"), i))
			_, cancel := context.WithCancel(c) // as database/sql does
			cancel()
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := l.jointCount(); n != 2 {
		t.Errorf("%d joints, want one for each parent", n)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, before %d", n, goroutines)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d bytes kept", grown)
	}
}

// TestEndedParentsAreForgotten: so does a context that lives for one statement only.
func TestEndedParentsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New("k", Fence{})
		for range 1000 {
			parent, cancel := context.WithTimeout(context.Background(), time.Second)
			live(t, l.Context(parent))
			cancel()
			ended(t, l.Context(parent), context.Canceled, context.Canceled)
		}
		synctest.Wait()
		if n := l.jointCount(); n != 0 {
			t.Errorf("%d joints left", n)
		}
	})
}

// TestLostLeasesAreForgotten: the other way round, many leases under one parent.
func TestLostLeasesAreForgotten(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 10_000 {
		l := New("k", Fence{})
		l.Context(parent)
		l.Lose(nil)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d bytes kept", grown)
	}
}

func TestConcurrency(t *testing.T) {
	for range 50 {
		l := New("k", Fence{})
		parent, cancelParent := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range 8 {
			wg.Go(func() {
				<-start
				for j := range 20 {
					ctx, cancel := context.WithCancel(context.WithValue(parent, ctxKey("j"), j))
					c := l.Context(l.Context(ctx))
					child, cancelChild := context.WithCancel(c)
					if got, _ := FromContext(child); got != l || c.Value(ctxKey("j")) != j {
						t.Error("wrong values")
					}
					_, _, _ = c.Err(), context.Cause(child), fmt.Sprintf("%v %v", c, child)
					cancelChild()
					cancel()
					<-c.Done()
				}
				if i%2 == 0 {
					l.Lose(fmt.Errorf("goroutine %d", i))
					<-l.Done()
					ended(t, l.Context(context.WithoutCancel(parent)), context.Canceled, ErrLost)
				}
			})
		}
		wg.Go(func() {
			<-start
			if l.Err() == nil {
				<-l.Context(parent).Done()
			}
			cancelParent()
		})
		close(start)
		wg.Wait()
		if err := l.Err(); !errors.Is(err, ErrLost) || l.jointCount() != 0 {
			t.Errorf("Err() = %v, %d joints", err, l.jointCount())
		}
	}
}

func TestContextAllocatesOnce(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := New("k", Fence{0, 7})
	for _, ctx := range []context.Context{context.Background(), parent, context.WithValue(parent, ctxKey("a"), 1)} {
		var c context.Context
		if n := testing.AllocsPerRun(100, func() { c = l.Context(ctx) }); n > 1 {
			t.Errorf("%v: Context allocates %v times", ctx, n)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = FromContext(c) }); n > 0 {
			t.Errorf("%v: FromContext allocates %v times", ctx, n)
		}
	}
}

func BenchmarkContext(b *testing.B) {
	parent, cancel := context.WithCancel(b.Context())
	defer cancel()
	l := New("k", Fence{0, 7})
	b.ReportAllocs()
	for b.Loop() {
		l.Context(parent)
	}
}

func BenchmarkFromContext(b *testing.B) {
	c := New("k", Fence{0, 7}).Context(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		FromContext(c)
	}
}
