// Package lease has the lease and its fence: the number that lets a database refuse a holder whose lease ran out
// while it was still working.
//
// A lease store, or an adapter of another lock service, makes a [Lease] with [New]. Whoever works under it passes
// [Lease.Context] to every database call; the fencedsql driver finds the lease there with [FromContext].
package lease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

var (
	// ErrLost means that a lease ended before its context did. It says nothing of the statement that was running, which
	// may have been written, like any statement that is cancelled. A retry under the same lease fails the same way:
	// take a new lease, and read again before writing.
	ErrLost = errors.New("lease: lost")

	// ErrHeld means that a lease store gave no lease, because another holder has the key's. Nothing was written. A
	// retry is safe; it fails until that lease is given back or runs out.
	ErrHeld = errors.New("lease: held")
)

// A Lease is a time-limited right to work on a key. Its methods may be called from any goroutine, and on a nil Lease,
// which stands for none, except for [Lease.IdempotencyKey]. Make one with [New]; the zero Lease is not usable.
type Lease struct {
	key   string
	fence Fence
	done  chan struct{} // closed once err is set and the contexts have ended

	mu     sync.Mutex
	err    error                     // why the lease is lost; nil while held
	joints map[<-chan struct{}]joint // by the parent's Done channel, which may be nil; none once lost
}

// A joint is a context that ends when a parent does or when the lease is lost.
type joint struct {
	context.Context
	end context.CancelCauseFunc
}

// New returns a lease of key, held until [Lease.Lose] is called. The zero fence makes a lease without one, such as a
// semaphore's; a fenced write refuses it.
//
// Call Lose when the work is done, as one calls a context's cancel function. Otherwise the parent of its contexts keeps
// the lease in memory until it ends itself.
func New(key string, f Fence) *Lease {
	return &Lease{key: key, fence: f, done: make(chan struct{}), joints: make(map[<-chan struct{}]joint)}
}

// Key returns what the lease is for; "" if l is nil.
func (l *Lease) Key() string {
	if l == nil {
		return ""
	}
	return l.key
}

// Fence returns the number of the lease: zero if it has none or l is nil.
func (l *Lease) Fence() Fence {
	if l == nil {
		return Fence{}
	}
	return l.fence
}

// Done returns a channel that is closed when the lease is lost, after its contexts have ended; nil if l is nil.
func (l *Lease) Done() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.done
}

// Err returns nil while the lease is held, and if l is nil. Afterwards the error wraps [ErrLost] and the reason, and
// stays the same.
func (l *Lease) Err() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Lose marks the lease as lost and ends its contexts. Lease stores and adapters of other lock services call it when the
// lease cannot be renewed and when it is given back. The first call counts, and its reason, which may be nil, stays.
// Nothing is written.
func (l *Lease) Lose(reason error) {
	if l == nil {
		return
	}
	err := fmt.Errorf("%w (key %q)", ErrLost, l.key)
	if reason != nil {
		err = fmt.Errorf("%w: %w", err, reason)
	}

	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err = err
	joints := l.joints
	l.joints = nil
	l.mu.Unlock()

	for _, j := range joints {
		j.end(err)
	}
	close(l.done)
}

// Context returns a context that carries the lease, with the values and the deadline of ctx. It ends when ctx does, with
// the same error and cause, or when the lease is lost, with [context.Canceled] and a [context.Cause] that wraps [ErrLost].
// Inside another lease's context, both leases end it, and [FromContext] finds this one.
//
// It is made to be called for each statement and has no cancel function. What it keeps, it keeps once for each Done
// channel of the contexts given to it, until that context ends or the lease is lost.
//
//	db.ExecContext(l.Context(ctx), "UPDATE …")
//
// It panics if ctx is nil. If l is nil it returns ctx.
func (l *Lease) Context(ctx context.Context) context.Context {
	if ctx == nil {
		panic("lease: cannot create a context from a nil parent")
	}
	if l == nil {
		return ctx
	}
	return &leaseContext{l.join(ctx), ctx, l}
}

// join returns a context that ends with parent or with the lease, whichever is first. Contexts with the same Done
// channel share one: made anew for each statement they would pile up in a parent that lives long, since nobody cancels
// them.
//
// It calls no method of parent with the lock held: parent may be of a user's type with a lock of its own.
func (l *Lease) join(parent context.Context) context.Context {
	done, ended := parent.Done(), parent.Err() != nil
	l.mu.Lock()
	j, ok := l.joints[done]
	l.mu.Unlock()
	if ok && !ended { // the end of a user's type takes a goroutine to reach j
		return j.Context
	}

	j.Context, j.end = context.WithCancelCause(trunk(parent, done))
	if j.Err() != nil { // parent has ended
		return j.Context
	}
	l.mu.Lock()
	lost := l.err
	other, taken := l.joints[done]
	if lost == nil && !taken {
		l.joints[done] = j
	}
	l.mu.Unlock()
	switch {
	case lost != nil:
		j.end(lost)
	case taken: // by a faster goroutine
		j.end(nil)
		return other.Context
	case done != nil:
		context.AfterFunc(j.Context, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.joints, done)
		})
	}
	return j.Context
}

// trunk returns the context to join in place of parent: what made its Done channel, if that is known, so that the joint
// does not keep the values that this one statement's context has on top.
func trunk(parent context.Context, done <-chan struct{}) context.Context {
	if done == nil {
		return context.Background()
	}
	if c, ok := parent.Value(cancelKey).(context.Context); ok && c.Done() == done {
		return c
	}
	return parent
}

// leaseContext is a context with the end of joint and everything else of parent.
type leaseContext struct {
	joint  context.Context
	parent context.Context
	lease  *Lease
}

func (c *leaseContext) Done() <-chan struct{}       { return c.joint.Done() }
func (c *leaseContext) Err() error                  { return c.joint.Err() }
func (c *leaseContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

func (c *leaseContext) Value(key any) any {
	switch key {
	case leaseKey{}:
		return c.lease
	case cancelKey:
		return c.joint.Value(key)
	}
	return c.parent.Value(key)
}

// String is what fmt prints, which otherwise reads the fields of a live context and races with its end.
func (c *leaseContext) String() string {
	return "lease.Context(" + strconv.Quote(c.lease.key) + ")"
}

// FromContext returns the lease that ctx carries: the innermost one, if there are several. It may be lost already.
func FromContext(ctx context.Context) (*Lease, bool) {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l, l != nil
}

// Without returns a context like ctx that carries no lease. It still ends when a lease that ctx carries is lost.
func Without(ctx context.Context) context.Context {
	return context.WithValue(ctx, leaseKey{}, (*Lease)(nil))
}

// leaseKey is the key of the lease among a context's values.
type leaseKey struct{}

// cancelKey is the key, private to package context, under which a context returns the *cancelCtx that its Done channel
// comes from. Package context derives without a goroutine from a context that answers it, and context.Cause needs the
// answer. Should a later version of Go no longer ask, the tests of causes and goroutines fail.
var cancelKey = func() any {
	p := probe{Context: context.Background()}
	context.Cause(&p)
	return p.asked
}()

// probe is an ended context that remembers which value it was asked for.
type probe struct {
	context.Context
	asked any
}

func (p *probe) Err() error        { return context.Canceled }
func (p *probe) Value(key any) any { p.asked = key; return nil }
