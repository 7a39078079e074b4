package fencedsql

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"

	"github.com/fencedsql/fencedsql/dialects"
)

// transaction is what the connection knows of its transaction, whether it was
// begun by BeginTx or by a statement.
type transaction struct {
	active    bool
	textual   bool // begun by a statement, not by BeginTx
	implicit  bool // begun by a SAVEPOINT, and ended by its RELEASE
	unseen    bool // begun by a text that failed later on; any RELEASE may end it
	authority authority
	saves     []string // the savepoints that stand, oldest first

	// failed is the refusal that nothing has undone yet, and failedAt how
	// many savepoints stood before the refused write.
	failed   error
	failedAt int

	setsMode bool // a statement in it changed how texts are read, and may be undone
	defines  bool // a statement in it changed a fenced table, which others do not see yet, and may be undone
	lost     bool // the engine has rolled it back on its own
	// suspect is set when a statement failed, which may have ended the
	// transaction; querying is the context of the last Query, whose rows may
	// have failed since.
	suspect  bool
	querying context.Context
}

func (t *transaction) fail(err error) {
	if t.active && t.failed == nil { // what undoes the first undoes those after it
		t.failed, t.failedAt = err, len(t.saves)
	}
}

// apply follows one act of transaction control. It returns false for one that
// would commit a transaction that must not.
func (t *transaction) apply(op dialects.TxOp) bool {
	last := -1
	for i, name := range t.saves {
		if name == op.Name {
			last = i
		}
	}
	end := func() {
		next := transaction{}
		if op.Chain {
			next = transaction{active: t.active, textual: t.textual, authority: t.authority}
		}
		*t = next
	}
	switch op.Verb {
	case dialects.TxBegin:
		if !t.active {
			*t = transaction{active: true, textual: true}
		}
	case dialects.TxCommit:
		if t.failed != nil {
			return false
		}
		end()
	case dialects.TxRollback:
		end()
	case dialects.TxSavepoint:
		if !t.active {
			*t = transaction{active: true, textual: true, implicit: true}
		}
		t.saves = append(t.saves, op.Name)
	case dialects.TxRelease:
		switch {
		case last < 0:
			return !t.unseen || t.failed == nil
		case last == 0 && t.implicit:
			if t.failed != nil {
				return false
			}
			*t = transaction{}
		default:
			t.saves = t.saves[:last]
			t.failedAt = min(t.failedAt, last)
		}
	case dialects.TxRollbackTo:
		if last >= 0 {
			t.saves = t.saves[:last+1]
			if t.failedAt > last {
				t.failed = nil
			}
		}
	}
	return true
}

// beforeStatement refuses what must not run in the transaction as it stands:
// anything after the engine ended it, and a commit after ErrFenced, which
// rolls back instead.
func (c *conn) beforeStatement(ctx context.Context, p *plan) error {
	if !c.tx.active {
		if len(p.Tx) > 0 && (p.Tx[0].Verb == dialects.TxBegin || p.Tx[0].Verb == dialects.TxSavepoint) {
			c.checkBeforeTx(ctx)
		}
		return nil
	}
	if c.txLost() {
		begins := len(p.Tx) > 0 && !slices.Contains([]dialects.TxVerb{dialects.TxNone, dialects.TxCommit, dialects.TxRelease}, p.Tx[0].Verb)
		if c.tx.textual {
			c.endTx() // it is told once; nobody else ends it
		}
		if begins {
			return nil
		}
		return errTxLost
	}
	if c.tx.failed == nil {
		return nil
	}
	after := c.tx
	after.saves = slices.Clone(after.saves)
	commits := p.TxUnknown || c.pool.dialect.MayCommit(p.text)
	for _, op := range p.Tx {
		commits = commits || !after.apply(op)
	}
	if !commits {
		return nil
	}
	err := c.tx.failed
	if !c.tx.textual {
		return err // Tx.Commit and Tx.Rollback are still to come
	}
	c.endTx()
	_, rerr := direct{c}.exec(context.WithoutCancel(ctx), "ROLLBACK", nil)
	return errors.Join(err, rerr)
}

// afterStatement follows what a statement did to the transaction.
func (c *conn) afterStatement(ctx context.Context, p *plan, err error) {
	if err == driver.ErrSkip {
		return
	}
	defer c.afterSettings(p, c.tx.setsMode, c.tx.defines)
	if !p.quiet && (p.TxUnknown || err != nil && len(p.Tx) > 0) {
		if len(p.Tx) == 1 && p.Tx[0].Verb == dialects.TxCommit && c.pool.dialect.CommitEnds(err) {
			c.endTx()
		}
		c.askTx() // some of the text may have run
		return
	}
	if err != nil {
		c.tx.suspect = c.tx.active
		return
	}
	if !p.quiet {
		for _, op := range p.Tx {
			c.tx.apply(op)
		}
	}
	if c.tx.active {
		c.tx.querying = ctx
	}
}

// afterSettings forgets what a text may have changed, whether it failed in the
// end or not, and what the end of a transaction may have undone or made seen.
func (c *conn) afterSettings(p *plan, setMode, defined bool) {
	if p.quiet {
		return
	}
	ends := p.TxUnknown || len(p.Tx) > 0
	if p.SetsMode || ends && setMode {
		c.modeKnown, c.tx.setsMode = false, c.tx.active
	}
	if p.Defines || ends && defined {
		c.pool.forget()
		c.tx.defines = c.tx.active
	}
}

// askTx finds out whether there is a transaction, where the engine can tell.
func (c *conn) askTx() {
	if c.pool.lostTx == "" {
		return
	}
	switch c.tx.suspect = true; {
	case !c.outsideTx():
		if !c.tx.active {
			c.tx = transaction{active: true, textual: true, unseen: true}
		}
	case c.tx.textual:
		c.endTx()
	case c.tx.active:
		c.tx.lost = true
	}
}

// txLost reports whether the engine has ended the transaction on its own.
func (c *conn) txLost() bool {
	if c.pool.lostTx != "" && !c.tx.lost {
		c.tx.lost = c.outsideTx()
	}
	return c.tx.lost
}

// outsideTx asks the engine whether no transaction stands. Where that costs a
// statement it is asked only after something failed.
func (c *conn) outsideTx() bool {
	if c.autoCommit != nil {
		return c.autoCommit.AutoCommit()
	}
	if !c.tx.suspect && (c.tx.querying == nil || c.tx.querying.Err() == nil) {
		return false
	}
	c.tx.suspect, c.tx.querying = false, nil
	if _, err := (direct{c}).exec(context.Background(), c.pool.lostTx, nil); err != nil {
		return false
	}
	if _, err := (direct{c}).exec(context.Background(), "ROLLBACK", nil); err != nil {
		c.pool.warn(context.Background(), err)
	}
	return true
}

// endTx forgets the transaction, and what may have been undone with it.
func (c *conn) endTx() {
	c.modeKnown = c.modeKnown && !c.tx.setsMode
	if c.tx.defines {
		c.pool.forget()
	}
	c.tx = transaction{}
}

func (c *conn) begin(ctx context.Context, readOnly bool, begin func() (driver.Tx, error)) (driver.Tx, error) {
	if c.tx.active && c.tx.textual && c.txLost() {
		c.endTx()
	}
	if c.tx.failed != nil {
		// A transaction of text stands, and may not be committed by this one.
		err := c.tx.failed
		c.endTx()
		_, rerr := direct{c}.exec(context.WithoutCancel(ctx), "ROLLBACK", nil)
		return nil, errors.Join(err, rerr)
	}
	if !c.tx.active && !readOnly {
		c.checkBeforeTx(ctx)
	}
	inner, err := begin()
	if err != nil {
		return nil, err
	}
	c.tx = transaction{active: true, authority: authorityOf(ctx)}
	return &tx{c, inner}, nil
}

// checkBeforeTx checks the tables before the first transaction of the pool
// rather than in it: a read there would take a snapshot, and under SQLite a
// lock, before the first write of the transaction does. A table that is not
// fit, or not there yet, is checked again when it is first written.
func (c *conn) checkBeforeTx(ctx context.Context) {
	r, err := c.pool.current()
	if err != nil || r == nil || r.begun.Swap(true) {
		return
	}
	for i := range r.set.tables {
		t := &r.set.tables[i]
		if name, err := dialects.ParseName(t.Name); err == nil {
			_, _ = c.pool.check(ctx, querier{c}, checkKey{t, name}, false)
		}
	}
}

// tx is a transaction begun by BeginTx.
type tx struct {
	c     *conn
	inner driver.Tx
}

// Commit rolls back and returns the ErrFenced if a refused write was not undone.
func (t *tx) Commit() error {
	c := t.c
	if c.tx.defines {
		defer c.pool.forget() // once all see it
	}
	refused := c.tx.failed
	if c.tx.active && c.txLost() {
		refused = errTxLost
	}
	c.endTx()
	if refused == nil {
		return t.inner.Commit()
	}
	// Rollback of a transaction that the engine ended is an error by itself.
	if err := t.inner.Rollback(); err != nil && refused != errTxLost {
		return errors.Join(refused, err)
	}
	return refused
}

func (t *tx) Rollback() error {
	if t.c.tx.defines {
		defer t.c.pool.forget()
	}
	t.c.endTx()
	return t.inner.Rollback()
}
