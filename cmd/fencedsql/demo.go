package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/lease/sqlstore"
)

// demoLimit ends a demo that hangs. It takes about two seconds.
const demoLimit = time.Minute

func demoCommand(args []string, std streams) int {
	fs := flag.NewFlagSet("fencedsql demo", flag.ContinueOnError)
	name := fs.String("engine", "sqlite", "")
	dsn := fs.String("dsn", "", "")
	keep := fs.Bool("keep", false, "")
	if code, done := parseAll(fs, args, demoUsage, std); done {
		return code
	}
	engine, err := engineNamed(*name)
	switch {
	case err != nil:
	case engine.name == "sqlite" && *dsn != "":
		err = errors.New("with SQLite it takes no -dsn: it makes files of its own in a temporary folder")
	case engine.name != "sqlite" && given(*dsn, dsnEnv) == "":
		err = fmt.Errorf("-dsn is missing, or %s in the environment: the database to play in, %s", dsnEnv, engine.form)
	}
	if err != nil {
		return misused(fs.Name(), err, demoUsage, std)
	}
	if !canPause {
		fmt.Fprintf(std.err, "fencedsql demo: it stops a process in the middle of its work (SIGSTOP), which it cannot do on %s.\n", runtime.GOOS)
		fmt.Fprintln(std.err, "Run it on Linux or macOS; on Windows, in WSL.")
		return exitUsage
	}
	if err := engine.usable(); err != nil {
		fmt.Fprintf(std.err, "fencedsql demo: %v\n", err)
		fmt.Fprintln(std.err, "Or play it on a server: -engine postgres or -engine mysql.")
		return exitUsage
	}

	ignoreBrokenPipe() // of "fencedsql demo | head": the processes, tables and files are still to be cleared away
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, demoLimit, fmt.Errorf("the demo has not ended after %v", demoLimit))
	defer cancel()
	if err := demo(ctx, std.out, engine, given(*dsn, dsnEnv), *keep); err != nil {
		fmt.Fprintf(std.err, "\nfencedsql demo: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func demoUsage(w io.Writer) {
	fmt.Fprintf(w, `Usage: fencedsql demo [-engine sqlite|postgres|mysql] [-dsn …] [-keep]

Two worker processes hold the same key, one after the other, through a lease
store. The first is stopped in the middle of its work until its lease has run
out, the second takes over and writes, the first goes on and writes late. Shown
are the fences, the SQL as written and as sent, and the row in the end. The exit
code is 0 if the late write was refused and the first worker was told that its
lease is lost, else 1.

  -engine  sqlite (the default) makes two files in a temporary folder: kv.db
           for the leases, app.db for the data. postgres and mysql (MariaDB
           and TiDB too) play in the database of -dsn, in tables with a name
           of their own, which are dropped in the end
  -dsn     the database, as the driver writes it:
           %s
           %s
           Better in the environment, as %s
  -keep    keep the files or tables and say where they are
`, engines[1].form, engines[2].form, dsnEnv)
}

// scene is where the story is played.
type scene struct {
	Engine   string
	Leases   string // DSN of the lease store
	Data     string // DSN of the fenced table
	Prefix   string // of the lease store's tables
	Chats    string // the fenced table
	Messages string
}

// newScene chooses names that nobody uses. dir is for files, and "" to play on a server.
func newScene(engine *engine, dsn, dir string) scene {
	if dir != "" {
		return scene{
			Engine: engine.name,
			// Renewals are not to wait for the disk, nor for longer than a lease lives.
			Leases: dataSource(filepath.Join(dir, "kv.db"), "_journal_mode=WAL&_synchronous=NORMAL&_busy_timeout=500"),
			Data:   dataSource(filepath.Join(dir, "app.db"), ""),
			Prefix: "fencedsql_", Chats: "chats", Messages: "messages",
		}
	}
	prefix := "fencedsql_demo_" + strings.ToLower(rand.Text()[:12]) + "_"
	return scene{
		Engine: engine.name, Leases: dsn, Data: dsn,
		Prefix: prefix, Chats: prefix + "chats", Messages: prefix + "messages",
	}
}

// table is the one that the demo fences.
func (s scene) table() fencedsql.Table {
	return fencedsql.Table{Name: s.Chats, Fence: "fence", Key: []string{"id"}}
}

// The texts of the workers' program.
func (s scene) readText() string {
	return s.marked("SELECT body FROM " + s.Messages + " WHERE chat = ? ORDER BY id")
}

func (s scene) writeText() string {
	return s.marked("UPDATE " + s.Chats + " SET summary = ? WHERE id = ?")
}

func (s scene) marked(text string) string {
	engine, err := engineNamed(s.Engine)
	if err != nil {
		return text
	}
	return engine.mark(text)
}

// demoTables are the columns of the demo's tables in an engine's words. In Fence stands the zero fence.
type demoTables struct{ chats, messages string }

var zeroFence = literal(lease.Fence{}.Text())

var (
	sqliteDemo = demoTables{
		chats:    "id INTEGER PRIMARY KEY, summary TEXT NOT NULL,\nfence TEXT NOT NULL DEFAULT " + zeroFence,
		messages: "id INTEGER PRIMARY KEY, chat INTEGER NOT NULL, body TEXT NOT NULL",
	}
	postgresDemo = demoTables{
		chats:    "id bigint PRIMARY KEY, summary text NOT NULL,\nfence varchar(40) NOT NULL DEFAULT " + zeroFence,
		messages: "id bigint PRIMARY KEY, chat bigint NOT NULL, body text NOT NULL",
	}
	mysqlDemo = demoTables{
		chats:    "id BIGINT PRIMARY KEY, summary VARCHAR(200) NOT NULL,\nfence CHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT " + zeroFence,
		messages: "id BIGINT PRIMARY KEY, chat BIGINT NOT NULL, body VARCHAR(200) NOT NULL",
	}
)

// demo plays the story, in a temporary folder or at the DSN. The error says what went otherwise than promised.
func demo(ctx context.Context, out io.Writer, engine *engine, dsn string, keep bool) (err error) {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	var dir string
	if engine.name == "sqlite" {
		if dir, err = os.MkdirTemp("", "fencedsql-demo-"); err != nil {
			return err
		}
		defer func() {
			if keep {
				fmt.Fprintf(out, "\nThe files are kept:\n%s\n%s\n", filepath.Join(dir, "kv.db"), filepath.Join(dir, "app.db"))
			} else {
				err = errors.Join(err, os.RemoveAll(dir))
			}
		}()
	}
	stage := &stage{engine: engine, scene: newScene(engine, dsn, dir)}
	if stage.data, err = engine.open(ctx, stage.Data); err != nil {
		return err
	}
	defer stage.data.Close()
	if dir == "" {
		defer func() {
			switch {
			case !stage.made:
			case keep:
				fmt.Fprintf(out, "\nThe tables are kept:\n%s\n", strings.Join(stage.tables(), "\n"))
			default:
				err = errors.Join(err, stage.drop(ctx))
			}
		}()
	}

	p := newPrinter(out)
	s, err := play(ctx, p, exe, stage)
	if err != nil {
		if why := context.Cause(ctx); why != nil && !errors.Is(err, why) { // a database says only that a context has ended
			err = fmt.Errorf("%w: %w", err, why)
		}
		return err
	}
	if wrong := judge(s); len(wrong) > 0 {
		fmt.Fprintf(out, "\n%s\n", p.paint(red, "This is not what is promised:"))
		for _, w := range wrong {
			p.field("-", w, red)
		}
		return errors.New("the outcome is not the promised one")
	}
	fmt.Fprintf(out, "\n%s\n", p.paint(green, "A's late write changed nothing: the row has B's summary, under B's fence. And A knows."))
	return nil
}

// stage is a scene with the engine it is on.
type stage struct {
	scene
	engine *engine
	data   *sql.DB // bare
	made   bool    // whether a table may be there
}

// create makes the tables of the data. It returns the database's version.
func (s *stage) create(ctx context.Context) (version string, err error) {
	do := func(text string, args ...any) {
		if err == nil {
			_, err = s.data.ExecContext(ctx, s.engine.mark(text), args...)
		}
	}
	do(s.createChats())
	s.made = err == nil || ctx.Err() != nil // when nobody knows
	do("CREATE TABLE " + s.Messages + " (" + s.engine.demo.messages + ")")
	do("INSERT INTO "+s.Chats+" (id, summary) VALUES (?, '')", chatID)
	for i, m := range messages {
		do("INSERT INTO "+s.Messages+" (id, chat, body) VALUES (?, ?, ?)", i+1, chatID, m)
	}
	if err == nil {
		err = s.data.QueryRowContext(ctx, s.engine.version).Scan(&version)
	}
	if !strings.Contains(version, "MariaDB") && !strings.Contains(version, "TiDB") {
		version = s.engine.product + version
	}
	return version, err
}

func (s *stage) createChats() string {
	return "CREATE TABLE " + s.Chats + " (" + s.engine.demo.chats + ")"
}

// readRow reads the row of the story, and how many rows its table has.
func (s *stage) readRow(ctx context.Context) (r row, n int, err error) {
	err = s.data.QueryRowContext(ctx, s.marked("SELECT summary, fence, (SELECT count(*) FROM "+s.Chats+") FROM "+s.Chats+" WHERE id = ?"), chatID).
		Scan(&r.Summary, &r.Fence, &n)
	return r, n, err
}

// locked tells whether somebody is writing to the lease store's file at this moment. Whoever is stopped then keeps it
// locked, and no lease can be taken.
func (s *stage) locked(ctx context.Context) (bool, error) {
	if s.engine.name != "sqlite" {
		return false, nil
	}
	db, err := s.engine.open(ctx, s.Leases)
	if err != nil {
		return false, err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		if strings.Contains(err.Error(), "database is locked") {
			return true, nil
		}
		return false, err
	}
	_, err = conn.ExecContext(ctx, "ROLLBACK")
	return false, err
}

var createdTable = regexp.MustCompile(`(?m)^CREATE TABLE IF NOT EXISTS (\S+)`)

// tables are all tables of the demo, as they are written in SQL.
func (s *stage) tables() []string {
	list := []string{s.Chats, s.Messages}
	texts, _ := sqlstore.DDL(s.Engine, sqlstore.WithPrefix(s.Prefix))
	for _, text := range texts {
		for _, found := range createdTable.FindAllStringSubmatch(text, -1) {
			list = append(list, found[1])
		}
	}
	return list
}

// drop drops the tables, even if ctx has ended.
func (s *stage) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reachLimit)
	defer cancel()
	var errs []error
	for _, name := range s.tables() {
		if _, err := s.data.ExecContext(ctx, "DROP TABLE IF EXISTS "+name); err != nil {
			errs = append(errs, fmt.Errorf("the table %s could not be dropped: %w", name, bare(err)))
		}
	}
	return errors.Join(errs...)
}
