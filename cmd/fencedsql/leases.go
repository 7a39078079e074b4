package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/lease/sqlstore"
)

func leasesCommand(args []string, std streams) int {
	return dispatch("fencedsql leases", []command{
		{"ddl", "print the statements that make the store's tables", ddlCommand},
		{"list", "show the leases that are held", listCommand},
		{"raise-above", "make a restored store safe: every later fence above those stored", raiseCommand},
	}, args, std)
}

// storeFlags are the flags that say which lease store is meant.
type storeFlags struct{ engine, dsn, schema, prefix string }

func (f *storeFlags) add(fs *flag.FlagSet) {
	fs.StringVar(&f.engine, "engine", "", "")
	fs.StringVar(&f.schema, "schema", "", "")
	fs.StringVar(&f.prefix, "prefix", "", "")
}

func (f *storeFlags) addDSN(fs *flag.FlagSet) {
	f.add(fs)
	fs.StringVar(&f.dsn, "dsn", "", "")
}

const (
	namesUsage = `  -schema  the schema (PostgreSQL), database (MySQL) or attached database (SQLite)
           of the store's tables; by default that of the connection
  -prefix  how the names of the store's tables begin; by default fencedsql_
`
	storeUsage = `  -engine  sqlite, postgres or mysql (MariaDB and TiDB too)
  -dsn     the store's database, as the driver writes it:
           %s
           %s
           %s
           Better in the environment, as %s
` + namesUsage
)

func printStoreUsage(w io.Writer) {
	fmt.Fprintf(w, storeUsage, engines[0].form, engines[1].form, engines[2].form, dsnEnv)
}

// options are those of package sqlstore.
func (f *storeFlags) options() (opts []sqlstore.Option) {
	if f.schema != "" {
		opts = append(opts, sqlstore.WithSchema(f.schema))
	}
	if f.prefix != "" {
		opts = append(opts, sqlstore.WithPrefix(f.prefix))
	}
	return opts
}

// ddl gives the store's statements, or says what is wrong with the flags.
func (f *storeFlags) ddl() (*engine, []string, error) {
	e, err := engineNamed(f.engine)
	if err != nil {
		return nil, nil, err
	}
	texts, err := sqlstore.DDL(e.name, f.options()...)
	return e, texts, err
}

// database is where a store or a fenced table is.
type database struct {
	engine *engine
	dsn    string
}

func (f *storeFlags) database() (database, error) {
	e, _, err := f.ddl()
	if err != nil {
		return database{}, err
	}
	dsn := given(f.dsn, dsnEnv)
	if dsn == "" {
		return database{}, fmt.Errorf("-dsn is missing, or %s in the environment: %s", dsnEnv, e.form)
	}
	return database{e, dsn}, nil
}

// withStore opens the store, whose tables must be there, for f.
func (f *storeFlags) withStore(ctx context.Context, at database, use func(*sqlstore.Store) error) error {
	db, err := at.engine.existing(ctx, at.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	opts := append(f.options(), sqlstore.WithDialect(at.engine.name), sqlstore.WithoutMigrate())
	store, err := sqlstore.Open(ctx, db, opts...)
	if err != nil {
		return fmt.Errorf("%w\nAre -schema and -prefix those of the programs that use the store? \"fencedsql leases ddl\" prints its tables", err)
	}
	defer store.Close()
	return use(store)
}

// act runs what a command does in a database, until a signal ends it.
func act(fs *flag.FlagSet, std streams, what func(ctx context.Context) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := what(ctx); err != nil {
		fmt.Fprintf(std.err, "%s: %v\n", fs.Name(), err)
		return exitFailed
	}
	return exitOK
}

func ddlCommand(args []string, std streams) int {
	fs := flag.NewFlagSet("fencedsql leases ddl", flag.ContinueOnError)
	var f storeFlags
	f.add(fs)
	if code, done := parseAll(fs, args, ddlUsage, std); done {
		return code
	}
	_, texts, err := f.ddl()
	if err != nil {
		return misused(fs.Name(), err, ddlUsage, std)
	}
	for _, text := range texts {
		fmt.Fprintf(std.out, "%s;\n", text)
	}
	return exitOK
}

func ddlUsage(w io.Writer) {
	fmt.Fprint(w, `Usage: fencedsql leases ddl -engine sqlite|postgres|mysql [-schema …] [-prefix …]

Prints the statements that make the tables of a lease store (package
lease/sqlstore), for those who run migrations themselves and then open the store
with sqlstore.WithoutMigrate. They may be run again.

  -engine  sqlite, postgres or mysql (MariaDB and TiDB too)
`+namesUsage)
}

func listCommand(args []string, std streams) int {
	fs := flag.NewFlagSet("fencedsql leases list", flag.ContinueOnError)
	var f storeFlags
	f.addDSN(fs)
	if code, done := parseAll(fs, args, listUsage, std); done {
		return code
	}
	at, err := f.database()
	if err == nil {
		err = at.engine.usable()
	}
	if err != nil {
		return misused(fs.Name(), err, listUsage, std)
	}
	return act(fs, std, func(ctx context.Context) error {
		return f.withStore(ctx, at, func(store *sqlstore.Store) error {
			held, err := store.List(ctx)
			if err != nil {
				return err
			}
			return printLeases(std.out, held)
		})
	})
}

func listUsage(w io.Writer) {
	fmt.Fprint(w, `Usage: fencedsql leases list -engine sqlite|postgres|mysql -dsn … [-schema …] [-prefix …]

Prints the leases that are held: the name of the Locks or Semaphore, the key,
the fence, who holds it, since when and, unless it is renewed, until when. Keys
and owners are quoted as in Go. Leases are not changed. The store is opened as a
program does, which raises its epoch: the fences of later leases grow the more.

`)
	printStoreUsage(w)
}

// printLeases prints one line for each.
func printLeases(w io.Writer, held []sqlstore.Info) error {
	if len(held) == 0 {
		_, err := fmt.Fprintln(w, "no lease is held")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tKEY\tFENCE\tOWNER\tSINCE\tUNTIL")
	for _, l := range held {
		key, fence := strconv.Quote(l.Key), l.Fence.String()
		if l.Slot > 0 {
			key, fence = fmt.Sprintf("semaphore, slot %d", l.Slot), "none"
		}
		fmt.Fprintf(table, "%q\t%s\t%s\t%q\t%s\t%s\n", l.Name, key, fence, l.Owner, l.Since.Format(time.RFC3339), l.Until.Format(time.RFC3339))
	}
	return table.Flush()
}

func raiseCommand(args []string, std streams) int {
	fs := flag.NewFlagSet("fencedsql leases raise-above", flag.ContinueOnError)
	var f storeFlags
	f.addDSN(fs)
	number := ""
	fs.Func("fence", "", func(value string) error {
		if number != "" {
			return errors.New("it is there twice")
		}
		number = value
		return nil
	})
	from := fs.String("from-tables", "", "")
	dataEngine := fs.String("data-engine", "", "")
	dataDSN := fs.String("data-dsn", "", "")
	if code, done := parseAll(fs, args, raiseUsage, std); done {
		return code
	}
	var floor lease.Fence
	var columns []fenceColumn
	var data database
	at, err := f.database()
	if err == nil {
		switch {
		case (number == "") == (*from == ""):
			err = errors.New("it takes either -fence or -from-tables")
		case number != "" && *dataEngine+*dataDSN != "":
			err = errors.New("-data-engine and -data-dsn go with -from-tables only")
		case number != "":
			floor, err = lease.ParseFence(number)
		default:
			if columns, err = parseColumns(*from); err == nil {
				data, err = dataOf(at, *dataEngine, given(*dataDSN, dataDSNEnv))
			}
		}
	}
	if err == nil {
		err = at.engine.usable()
	}
	if err == nil && data.engine != nil {
		err = data.engine.usable()
	}
	if err != nil {
		return misused(fs.Name(), err, raiseUsage, std)
	}
	return act(fs, std, func(ctx context.Context) error {
		if columns != nil {
			var all []found
			if err := data.read(ctx, func(db *sql.DB) (err error) {
				all, err = data.engine.readFences(ctx, db, columns)
				return err
			}); err != nil {
				return fmt.Errorf("nothing was raised: %w", err)
			}
			if floor, err = printFound(std.out, columns, all); err != nil {
				return fmt.Errorf("nothing was raised: %w", err)
			}
		}
		if err := f.withStore(ctx, at, func(store *sqlstore.Store) error { return store.RaiseAbove(ctx, floor) }); err != nil {
			return err
		}
		_, err := fmt.Fprintf(std.out, "raised: every lease taken from now on has a fence above %v\n", floor)
		return err
	})
}

// dataOf is the database of the fenced tables: the store's own, unless flags or the environment say otherwise.
func dataOf(store database, engine, dsn string) (database, error) {
	data := store
	if engine != "" {
		e, err := engineNamed(engine)
		if err != nil {
			return data, fmt.Errorf("-data-engine: %w", err)
		}
		data.engine = e
	}
	if dsn == "" && engine != "" {
		return data, fmt.Errorf("-data-dsn is missing, or %s in the environment: %s", dataDSNEnv, data.engine.form)
	}
	data.dsn = cmp.Or(dsn, store.dsn)
	return data, nil
}

// read opens the database for f.
func (d database) read(ctx context.Context, f func(*sql.DB) error) error {
	db, err := d.engine.existing(ctx, d.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return f(db)
}

// printFound prints what the columns store, and returns the largest fence.
func printFound(w io.Writer, columns []fenceColumn, all []found) (largest lease.Fence, err error) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "COLUMN\tROWS\tLARGEST FENCE")
	for i, c := range columns {
		rows, fence := "no rows", "none"
		if all[i].rows > 0 {
			rows, fence = strconv.FormatInt(all[i].rows, 10), all[i].largest.String()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", c, rows, fence)
		if largest.Less(all[i].largest) {
			largest = all[i].largest
		}
	}
	return largest, table.Flush()
}

func raiseUsage(w io.Writer) {
	fmt.Fprint(w, strings.TrimLeft(`
Usage: fencedsql leases raise-above -engine sqlite|postgres|mysql -dsn …
       (-fence N | -from-tables T.C[,…] [-data-engine …] [-data-dsn …])
       [-schema …] [-prefix …]

Makes every later lease of a store have a larger fence than the tables have
stored, whatever its clock says. It is for a store that was restored from a
backup, or made anew: run it before the programs that use the store are started
again, and after those have ended that held leases of it, since what they have
yet to write is not in the tables.

  -fence N      the fence to raise the store above
  -from-tables  the columns that store fences of this store, all of them:
                chats.summary_fence,public.jobs.fence. The largest is taken.
                Names are as in the database; those with a dot or a comma in
                double quotes. A value that is no fence is an error, and so is
                NULL: then nothing is raised
  -data-engine  the engine of those tables, if not the store's
  -data-dsn     their database, if not the store's; or `+dataDSNEnv+`

`, "\n"))
	printStoreUsage(w)
}
