package fencedsql

import (
	"context"
	"database/sql/driver"
	"io"
	"reflect"
)

// noRows is the result of a write without RETURNING that came through Query.
type noRows struct{}

func (noRows) Columns() []string         { return nil }
func (noRows) Close() error              { return nil }
func (noRows) Next([]driver.Value) error { return io.EOF }

// rows are rows that are followed. Those of a fenced write may bring the
// engine's refusal, and the last column may be our own.
type rows struct {
	driver.Rows
	ctx context.Context
	c   *conn
	w   write
	// row takes our column in; nil when there is none.
	row  []driver.Value
	done func(error) error // ends the transaction around the statement, or nil
}

func newFencedRows(ctx context.Context, c *conn, w *write, inner driver.Rows) *rows {
	r := &rows{Rows: inner, ctx: ctx, c: c, w: *w}
	if w.Hidden {
		r.row = make([]driver.Value, len(inner.Columns()))
	}
	return r
}

func newRows(ctx context.Context, c *conn, w *write, inner driver.Rows) driver.Rows {
	return wrapRows(newFencedRows(ctx, c, w, inner), inner)
}

func (r *rows) Unwrap() driver.Rows { return r.Rows }

func (r *rows) Columns() []string {
	cols := r.Rows.Columns()
	if r.row != nil && len(cols) > 0 {
		cols = cols[:len(cols)-1]
	}
	return cols
}

func (r *rows) Next(dest []driver.Value) error {
	var err error
	if r.row == nil {
		err = r.Rows.Next(dest)
	} else if err = r.Rows.Next(r.row); err == nil {
		copy(dest, r.row)
	}
	if err == nil || err == io.EOF {
		return err
	}
	return r.failed(err)
}

// failed judges an error of the rows, which may have ended the transaction.
func (r *rows) failed(err error) error {
	r.c.tx.suspect = r.c.tx.active
	return r.c.judge(r.ctx, &r.w, err)
}

func (r *rows) Close() error {
	err := r.Rows.Close()
	if err != nil {
		err = r.failed(err)
	}
	if r.done != nil {
		err, r.done = r.done(err), nil
	}
	return err
}

func (r *rows) HasNextResultSet() bool { return r.Rows.(driver.RowsNextResultSet).HasNextResultSet() }

func (r *rows) NextResultSet() error {
	err := r.Rows.(driver.RowsNextResultSet).NextResultSet()
	if err == nil || err == io.EOF {
		return err
	}
	return r.failed(err)
}

func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	return r.Rows.(driver.RowsColumnTypeScanType).ColumnTypeScanType(i)
}

func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	return r.Rows.(driver.RowsColumnTypeDatabaseTypeName).ColumnTypeDatabaseTypeName(i)
}

func (r *rows) ColumnTypeLength(i int) (int64, bool) {
	return r.Rows.(driver.RowsColumnTypeLength).ColumnTypeLength(i)
}

func (r *rows) ColumnTypeNullable(i int) (bool, bool) {
	return r.Rows.(driver.RowsColumnTypeNullable).ColumnTypeNullable(i)
}

func (r *rows) ColumnTypePrecisionScale(i int) (int64, int64, bool) {
	return r.Rows.(driver.RowsColumnTypePrecisionScale).ColumnTypePrecisionScale(i)
}
