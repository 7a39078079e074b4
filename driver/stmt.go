package fencedsql

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/fencedsql/fencedsql/rewrite"
)

// stmt is a prepared statement. It takes the lease when it is executed, so
// that one statement serves many leases.
type stmt struct {
	driver.Stmt // the wrapped statement: of the plan's text, or the caller's if that passes
	c           *conn
	text        string
	prepared    string                 // the wrapped statement's text
	execer      driver.StmtExecContext // the wrapped statement, nil where it is none
	plan        *plan
	rules       *rules
	// asWritten is the statement of the caller's own text, where the wrapped
	// one is not: prepared when it is first executed with Unfenced.
	asWritten driver.Stmt
}

func (c *conn) prepare(ctx context.Context, text string) (driver.Stmt, error) {
	if text == operationText {
		return operationStmt{c}, nil
	}
	s := &stmt{c: c, text: text}
	if err := s.decide(ctx); err != nil {
		return nil, err
	}
	if s.plan != nil && s.plan.Verdict == rewrite.Refuse && !c.authority(ctx).unfenced {
		err := unfenceable(s.plan.Refusal)
		c.pool.warn(ctx, err)
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	return wrapStmt(s, s.Stmt), nil
}

// decide takes the plan for the tables that are registered now.
func (s *stmt) decide(ctx context.Context) error {
	p, r, err := s.c.plan(ctx, s.text)
	if err == nil {
		s.plan, s.rules = p, r
	}
	return err
}

// prepare makes the wrapped statement the plan's.
func (s *stmt) prepare(ctx context.Context) error {
	inner, err := s.c.prepareInner(ctx, s.sent())
	if err != nil {
		return err
	}
	s.Stmt, s.prepared = inner, s.sent()
	s.execer, _ = inner.(driver.StmtExecContext)
	return nil
}

// sent is the text that the plan wants prepared.
func (s *stmt) sent() string {
	if s.fenced() {
		return s.plan.Text
	}
	return s.text
}

func (s *stmt) fenced() bool { return s.plan != nil && s.plan.Verdict == rewrite.Fence }

// renew decides again when tables were registered since.
func (s *stmt) renew(ctx context.Context) error {
	if r, err := s.c.pool.current(); err != nil || r == s.rules {
		return err
	}
	before, p, r := s.Stmt, s.plan, s.rules
	if err := s.decide(ctx); err != nil {
		return err
	}
	if s.sent() == s.prepared {
		return nil
	}
	if err := s.prepare(ctx); err != nil {
		s.plan, s.rules = p, r // those of what is still prepared
		return err
	}
	return before.Close()
}

// exec and query make a stmt the sender of its own text.
func (s *stmt) exec(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if s.execer != nil && text == s.prepared {
		return s.execer.ExecContext(ctx, args)
	}
	st, err := s.of(ctx, text)
	if err != nil {
		return nil, err
	}
	return execStmt(ctx, st, args)
}

func (s *stmt) query(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	st, err := s.of(ctx, text)
	if err != nil {
		return nil, err
	}
	return queryStmt(ctx, st, args)
}

// of returns the statement of the text, which is the plan's or the caller's.
func (s *stmt) of(ctx context.Context, text string) (driver.Stmt, error) {
	if text == s.prepared {
		return s.Stmt, nil
	}
	if s.asWritten == nil {
		var err error
		if s.asWritten, err = s.c.prepareInner(ctx, s.text); err != nil {
			return nil, err
		}
	}
	return s.asWritten, nil
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.renew(ctx); err != nil {
		return nil, err
	}
	if s.plan == nil {
		return execStmt(ctx, s.Stmt, args)
	}
	c, p := s.c, s.plan
	if p.quiet && !c.tx.active && s.execer != nil { // as execPlan does it, with fewer calls
		if l, to := c.ready(ctx, p, args); to != nil {
			res, err := s.execer.ExecContext(ctx, to)
			if err != nil {
				s.doubt()
			}
			return c.judgeReady(ctx, p, l, args, res, err)
		}
	}
	res, err := c.execPlan(ctx, s, p, args)
	if err != nil {
		s.doubt()
	}
	return res, err
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.renew(ctx); err != nil {
		return nil, err
	}
	if s.plan == nil {
		return queryStmt(ctx, s.Stmt, args)
	}
	rows, err := s.c.queryPlan(ctx, s, s.plan, args)
	if err != nil {
		s.doubt()
	}
	return rows, err
}

// doubt, after an error, lets the next execution decide again where the table's
// columns may be the reason.
func (s *stmt) doubt() {
	if s.plan.Listed {
		s.rules = nil
	}
}

// Exec is the old form of ExecContext. It carries no context, and so no lease
// but that of BeginTx.
func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(contextless, named(args))
}

// Query is the old form of QueryContext.
func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(contextless, named(args))
}

func (s *stmt) Close() error {
	err := s.Stmt.Close()
	if s.asWritten != nil {
		err = errors.Join(err, s.asWritten.Close())
	}
	return err
}

// NumInput is what the caller's own text takes.
func (s *stmt) NumInput() int {
	n := s.Stmt.NumInput()
	if n >= 0 && s.fenced() {
		n = s.plan.NumInput
	}
	return n
}

func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	return s.Stmt.(driver.NamedValueChecker).CheckNamedValue(v)
}

// ColumnConverter gives the converter of the parameter that the caller's
// became in the text that was prepared.
func (s *stmt) ColumnConverter(i int) driver.ValueConverter {
	if s.fenced() {
		for j, a := range s.plan.Args {
			if a == rewrite.Arg(i+1) {
				i = j
				break
			}
		}
	}
	return s.Stmt.(driver.ColumnConverter).ColumnConverter(i) //lint:ignore SA1019 the wrapped driver may have nothing newer
}

func (s *stmt) Unwrap() driver.Stmt { return s.Stmt }

func execStmt(ctx context.Context, st driver.Stmt, args []driver.NamedValue) (driver.Result, error) {
	if s, ok := st.(driver.StmtExecContext); ok {
		return s.ExecContext(ctx, args)
	}
	values, err := unnamed(args)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return st.Exec(values) //lint:ignore SA1019 the wrapped driver may have nothing newer
}

func queryStmt(ctx context.Context, st driver.Stmt, args []driver.NamedValue) (driver.Rows, error) {
	if s, ok := st.(driver.StmtQueryContext); ok {
		return s.QueryContext(ctx, args)
	}
	values, err := unnamed(args)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return st.Query(values) //lint:ignore SA1019 the wrapped driver may have nothing newer
}
