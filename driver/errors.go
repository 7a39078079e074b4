package fencedsql

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/rewrite"
)

var (
	// ErrFenced means that the holder is stale: a row that the statement would
	// have changed was written under a newer lease. Nothing was written. A
	// retry under the same lease fails the same way: stop, and take a new
	// lease. Inside a transaction Commit rolls back, unless a ROLLBACK TO a
	// savepoint set before the statement undid it. It comes as a *FencedError.
	ErrFenced = errors.New("fencedsql: fenced: a newer lease wrote the row")

	// ErrUnfenceable means that the statement writes a fenced table in a way
	// that cannot be fenced. Nothing was sent. A retry fails the same way:
	// write what the Hint says. It comes as an *UnfenceableError.
	ErrUnfenceable = errors.New("fencedsql: the write cannot be fenced")

	// ErrNoLease means that the context of a fenced write carries no lease, or
	// one without a fence. Nothing was sent. Pass (*lease.Lease).Context(ctx),
	// or fencedsql.Unfenced(ctx) for administration.
	ErrNoLease = errors.New("fencedsql: no lease")

	// ErrSchema means that the fenced table is not as registered, or that its
	// fence column cannot hold fences, or holds something else in one of the
	// rows. Nothing was written. A retry works once the DDL of the *SchemaError
	// was run.
	ErrSchema = errors.New("fencedsql: the table cannot be fenced as it is")
)

// FencedError is an ErrFenced.
type FencedError struct {
	// Table is the table as registered; of a statement that writes several
	// fenced tables all are named, joined by " or ".
	Table string
	Lease string // the key of the stale lease
	Fence lease.Fence
	// Stored is the fence of the row, which is newer, or equal for a table
	// registered Once. It is zero where the engine does not tell.
	Stored lease.Fence
}

func (e *FencedError) Error() string {
	stored := "a newer one"
	if !e.Stored.IsZero() {
		stored = e.Stored.String()
	}
	// The lease's key stays out: Claim makes it of arguments.
	return fmt.Sprintf("fencedsql: fenced: table %s: the lease has fence %d, the row has %s", e.Table, e.Fence, stored)
}

// Unwrap gives ErrFenced.
func (e *FencedError) Unwrap() error { return ErrFenced }

// UnfenceableError is an ErrUnfenceable.
type UnfenceableError struct {
	Table  string // as registered
	Reason string
	Hint   string // what to write instead
}

func (e *UnfenceableError) Error() string {
	return fmt.Sprintf("fencedsql: table %s: the write cannot be fenced: %s; %s", e.Table, e.Reason, e.Hint)
}

// Unwrap gives ErrUnfenceable.
func (e *UnfenceableError) Unwrap() error { return ErrUnfenceable }

func unfenceable(r *rewrite.Refusal) error {
	return &UnfenceableError{Table: r.Table, Reason: r.Reason, Hint: r.Hint}
}

// SchemaError is an ErrSchema.
type SchemaError struct {
	Table  string // as registered
	Reason string
	DDL    string // what makes it fit; "" where the registration must change
}

func (e *SchemaError) Error() string {
	if e.DDL == "" {
		return fmt.Sprintf("fencedsql: table %s cannot be fenced: %s; correct what is registered", e.Table, e.Reason)
	}
	return fmt.Sprintf("fencedsql: table %s cannot be fenced: %s. To mend it:\n\t%s", e.Table, e.Reason, strings.ReplaceAll(e.DDL, "\n", "\n\t"))
}

// Unwrap gives ErrSchema.
func (e *SchemaError) Unwrap() error { return ErrSchema }

// errNoTables: a program that registers nothing believes itself fenced.
var errNoTables = errors.New("fencedsql: no table is registered: call fencedsql.RegisterTable, or open with fencedsql.WithTables, before the first statement")

func errNoLease(table, why string) error {
	return fmt.Errorf("%w: table %s: %s", ErrNoLease, table, why)
}

// errTxLost is for statements of a transaction that the engine has ended.
var errTxLost = fmt.Errorf("fencedsql: the database rolled the transaction back when an earlier statement was interrupted or failed; nothing of it was written, begin a new one: %w", sql.ErrTxDone)
