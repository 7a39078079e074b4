package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
)

// TestSqlc: queries in the shape in which sqlc generates them, with and
// without emit_prepared_queries.
func TestSqlc(t *testing.T) {
	for _, prepare := range []bool{false, true} {
		t.Run(fmt.Sprintf("prepared=%v", prepare), func(t *testing.T) {
			eachLibrary(t, func(t *testing.T, v *env) *sqlcDB {
				texts := sqlcTexts{
					update: v.mark("UPDATE docs\nSET title = ?, n = ?\nWHERE id = ?"),
					create: v.mark("INSERT INTO docs (title, n) VALUES (?, ?)"),
					remove: v.mark("DELETE FROM docs WHERE n < ?"),
				}
				if !prepare {
					return &sqlcDB{v.db, &sqlcQueries{db: v.db, texts: texts}}
				}
				q, err := sqlcPrepare(context.Background(), v.db, texts)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := q.Close(); err != nil {
						t.Error(err)
					}
				})
				return &sqlcDB{v.db, q}
			}, sqlcCases)
		})
	}
}

var sqlcCases = []libraryCase[*sqlcDB]{
	{name: "update", run: func(ctx context.Context, db *sqlcDB) error {
		n, err := db.q.UpdateDoc(ctx, sqlcUpdateParams{Title: "x", N: 1, ID: 1})
		if err == nil && n != 1 {
			err = fmt.Errorf("%d rows", n)
		}
		return err
	}, want: "b|20|live|f7, x|1|live|f6"},
	{name: "update, stale", run: func(ctx context.Context, db *sqlcDB) error {
		_, err := db.q.UpdateDoc(ctx, sqlcUpdateParams{Title: "x", N: 1, ID: 2})
		return err
	}},
	{name: "create", run: func(ctx context.Context, db *sqlcDB) error {
		return db.q.CreateDoc(ctx, "c", 3)
	}, want: docsStart + ", c|3|live|f6"},
	{name: "delete", run: func(ctx context.Context, db *sqlcDB) error {
		return db.q.DeleteDocs(ctx, 15)
	}, want: "b|20|live|f7"},
	{name: "delete, one stale", run: func(ctx context.Context, db *sqlcDB) error {
		return db.q.DeleteDocs(ctx, 100)
	}},
	{name: "WithTx", run: func(ctx context.Context, db *sqlcDB) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		q := db.q.WithTx(tx)
		_, err = q.UpdateDoc(ctx, sqlcUpdateParams{Title: "x", N: 1, ID: 1})
		return errors.Join(q.CreateDoc(ctx, "c", 3), err, tx.Commit())
	}, want: "b|20|live|f7, c|3|live|f6, x|1|live|f6"},
	{name: "WithTx that keeps quiet, stale", run: func(ctx context.Context, db *sqlcDB) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		q := db.q.WithTx(tx)
		_ = q.CreateDoc(ctx, "c", 3)
		_, _ = q.UpdateDoc(ctx, sqlcUpdateParams{Title: "x", N: 1, ID: 2})
		return tx.Commit()
	}},
}

type sqlcDB struct {
	*sql.DB
	q *sqlcQueries
}

type sqlcTexts struct{ update, create, remove string }

type sqlcDBTX interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	PrepareContext(context.Context, string) (*sql.Stmt, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

type sqlcQueries struct {
	db                     sqlcDBTX
	tx                     *sql.Tx
	texts                  sqlcTexts
	update, create, remove *sql.Stmt
}

func sqlcPrepare(ctx context.Context, db sqlcDBTX, texts sqlcTexts) (*sqlcQueries, error) {
	q := sqlcQueries{db: db, texts: texts}
	var err error
	if q.update, err = db.PrepareContext(ctx, texts.update); err != nil {
		return nil, fmt.Errorf("error preparing query UpdateDoc: %w", err)
	}
	if q.create, err = db.PrepareContext(ctx, texts.create); err != nil {
		return nil, fmt.Errorf("error preparing query CreateDoc: %w", err)
	}
	if q.remove, err = db.PrepareContext(ctx, texts.remove); err != nil {
		return nil, fmt.Errorf("error preparing query DeleteDocs: %w", err)
	}
	return &q, nil
}

func (q *sqlcQueries) Close() error {
	return errors.Join(q.update.Close(), q.create.Close(), q.remove.Close())
}

func (q *sqlcQueries) exec(ctx context.Context, stmt *sql.Stmt, query string, args ...any) (sql.Result, error) {
	switch {
	case stmt != nil && q.tx != nil:
		return q.tx.StmtContext(ctx, stmt).ExecContext(ctx, args...)
	case stmt != nil:
		return stmt.ExecContext(ctx, args...)
	default:
		return q.db.ExecContext(ctx, query, args...)
	}
}

func (q *sqlcQueries) WithTx(tx *sql.Tx) *sqlcQueries {
	w := *q
	w.db, w.tx = tx, tx
	return &w
}

type sqlcUpdateParams struct {
	Title string
	N     int64
	ID    int64
}

func (q *sqlcQueries) UpdateDoc(ctx context.Context, arg sqlcUpdateParams) (int64, error) {
	result, err := q.exec(ctx, q.update, q.texts.update, arg.Title, arg.N, arg.ID)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (q *sqlcQueries) CreateDoc(ctx context.Context, title string, n int64) error {
	_, err := q.exec(ctx, q.create, q.texts.create, title, n)
	return err
}

func (q *sqlcQueries) DeleteDocs(ctx context.Context, n int64) error {
	_, err := q.exec(ctx, q.remove, q.texts.remove, n)
	return err
}
