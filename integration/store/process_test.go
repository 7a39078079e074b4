package store

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/fencedsql/fencedsql/dialects/mysql"
	_ "github.com/fencedsql/fencedsql/dialects/postgres"
	_ "github.com/fencedsql/fencedsql/dialects/sqlite"
	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/lease/sqlstore"
)

// jobVariable makes this test binary a worker process; its value is a job.
const jobVariable = "FENCEDSQL_STORE_JOB"

// A job is what a worker process does. It prints one line for each event and ends when its standard input does.
type job struct {
	Kind, Driver, Dialect, DSN string
	Keys                       []string
	TTL                        time.Duration
	Rounds                     int
}

// work is the main function of a worker process.
func work(text string) {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		bufio.NewReader(os.Stdin).ReadByte()
		cancel()
	}()
	db, err := sql.Open(j.Driver, j.DSN)
	if err != nil {
		panic(err)
	}
	s, err := sqlstore.Open(ctx, db)
	if err != nil {
		if ctx.Err() == nil {
			fmt.Println("violation: open:", err)
		}
		return
	}
	map[string]func(context.Context, job, *sql.DB, *sqlstore.Store){"race": race, "crash": crash, "soak": soak}[j.Kind](ctx, j, db, s)
	s.Close()
	db.Close()
}

// worker is a process that does a job.
type worker struct {
	cmd   *exec.Cmd
	lines chan string // closed when it is gone
}

func (v *env) start(ctx context.Context, j job) *worker {
	v.Helper()
	j.Driver, j.Dialect, j.DSN = v.driver, v.dialect, v.dsn
	text, err := json.Marshal(j)
	v.ok(err)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	stdin, err := cmd.StdinPipe() // which ends with this process
	v.ok(err)
	out, err := cmd.StdoutPipe()
	v.ok(err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	v.ok(cmd.Start())
	w := &worker{cmd, make(chan string, 1<<14)}
	go func() {
		defer close(w.lines)
		defer stdin.Close()
		scan := bufio.NewScanner(out)
		for scan.Scan() {
			w.lines <- scan.Text()
		}
		cmd.Wait()
		if s := stderr.String(); strings.Contains(s, "panic") || strings.Contains(s, "DATA RACE") {
			w.lines <- "violation: " + s
		}
	}()
	return w
}

func (w *worker) signal(s syscall.Signal) { w.cmd.Process.Signal(s) }

// TestProcessesRace: of many processes that want the same keys, one has a key at a time, and each lease has a larger
// fence than the one before.
func TestProcessesRace(t *testing.T) {
	eachDialect(t, func(t *testing.T, v *env) {
		v.store()
		v.do("CREATE TABLE race (id VARCHAR(10) PRIMARY KEY, holder BIGINT NOT NULL, epoch BIGINT NOT NULL, counter BIGINT NOT NULL, leases BIGINT NOT NULL)")
		keys := []string{"a", "b"}
		for _, k := range keys {
			v.do("INSERT INTO race VALUES ('" + k + "', 0, 0, 0, 0)")
		}
		const processes, rounds = 5, 12
		var wg sync.WaitGroup
		for range processes {
			w := v.start(t.Context(), job{Kind: "race", Keys: keys, TTL: time.Minute, Rounds: rounds})
			wg.Go(func() {
				for line := range w.lines {
					t.Error(line)
				}
			})
		}
		wg.Wait()
		var n int
		v.ok(v.open().QueryRow("SELECT SUM(leases) FROM race").Scan(&n))
		if n != processes*rounds {
			t.Errorf("%d leases, want %d", n, processes*rounds)
		}
	})
}

func race(ctx context.Context, j job, db *sql.DB, s *sqlstore.Store) {
	e := &engine{marker: question}
	if j.Dialect == "postgres" {
		e.marker = dollar
	}
	one := func(text string, args ...any) {
		res, err := db.Exec(e.mark(text), args...)
		if err != nil {
			fmt.Println("violation:", err)
			return
		}
		if n, _ := res.RowsAffected(); n != 1 {
			fmt.Println("violation: another holder, or a fence that is not larger:", text, args)
		}
	}
	locks := s.Locks("race", j.TTL)
	for i := range j.Rounds {
		key := j.Keys[i%len(j.Keys)]
		err := locks.Hold(ctx, key, func(ctx context.Context, l *lease.Lease) error {
			f := l.Fence()
			one("UPDATE race SET holder = ?, epoch = ?, counter = ?, leases = leases + 1 WHERE id = ? AND holder = 0 AND (epoch < ? OR epoch = ? AND counter < ?)",
				os.Getpid(), int64(f.Epoch), int64(f.Count), key, int64(f.Epoch), int64(f.Epoch), int64(f.Count))
			one("UPDATE race SET holder = 0 WHERE id = ? AND holder = ?", key, os.Getpid())
			return nil
		})
		if err != nil {
			fmt.Println("violation:", err)
		}
	}
}

// TestKilledWhileAcquiring: kill -9 at any moment, 200 times (FENCEDSQL_KILLS), does not make a fence come back.
func TestKilledWhileAcquiring(t *testing.T) {
	kills := 200
	if s := os.Getenv("FENCEDSQL_KILLS"); s != "" {
		fmt.Sscan(s, &kills)
	}
	eachDialect(t, func(t *testing.T, v *env) {
		v.store()
		const lanes = 4
		var wg sync.WaitGroup
		var mu sync.Mutex
		leases, dead := 0, 0
		for lane := range lanes {
			wg.Go(func() {
				last := lease.Fence{}
				for range kills / lanes {
					w := v.start(t.Context(), job{Kind: "crash", Keys: []string{fmt.Sprint("k", lane)}, TTL: 20 * time.Millisecond})
					var after <-chan time.Time
					n := 0
					for line := range w.lines {
						f, err := lease.ParseFence(line)
						if err != nil {
							t.Error(line)
							continue
						}
						if !last.Less(f) {
							t.Errorf("fence %#v after %#v", f, last)
						}
						last = f
						if n++; n == 1 {
							after = time.After(rand.N(8 * time.Millisecond))
							go func() { <-after; w.signal(syscall.SIGKILL) }()
						}
					}
					mu.Lock()
					leases += n
					dead++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		t.Logf("%d leases of %d processes that were killed", leases, dead)
	})
}

func crash(ctx context.Context, j job, db *sql.DB, s *sqlstore.Store) {
	locks := s.Locks("crash", j.TTL)
	for ctx.Err() == nil {
		h, err := locks.Acquire(ctx, j.Keys[0])
		if err != nil {
			fmt.Println("violation:", err)
			return
		}
		fmt.Println(h.Fence())
		if err := h.Release(ctx); err != nil && !errors.Is(err, lease.ErrLost) {
			fmt.Println("violation:", err)
		}
	}
}

// journalOf makes a table that records each write of the fenced table soak, in its transaction and under its row's lock.
var journalOf = map[string][]string{
	"sqlite": {
		"CREATE TABLE journal (id INTEGER PRIMARY KEY AUTOINCREMENT, k TEXT, fence TEXT)",
		"CREATE TRIGGER t AFTER UPDATE ON soak BEGIN INSERT INTO journal (k, fence) VALUES (NEW.id, NEW.fence); END",
	},
	"postgres": {
		"CREATE TABLE journal (id BIGSERIAL PRIMARY KEY, k TEXT, fence TEXT)",
		"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO journal (k, fence) VALUES (NEW.id, NEW.fence); RETURN NEW; END'",
		"CREATE TRIGGER t AFTER UPDATE ON soak FOR EACH ROW EXECUTE FUNCTION f()",
	},
	"mysql": {
		"CREATE TABLE journal (id BIGINT AUTO_INCREMENT PRIMARY KEY, k TEXT, fence TEXT)",
		"CREATE TRIGGER t AFTER UPDATE ON soak FOR EACH ROW INSERT INTO journal (k, fence) VALUES (NEW.id, NEW.fence)",
	},
}

// TestSoak: eight worker processes write under leases and are stopped, continued and killed at random, for 10 seconds
// (FENCEDSQL_SOAK) on each engine. For every key the fences of the accepted writes never decrease, so that no stale
// write was accepted, and no holder was refused whose lease was alive.
func TestSoak(t *testing.T) {
	duration := 10 * time.Second
	if s := os.Getenv("FENCEDSQL_SOAK"); s != "" {
		var err error
		if duration, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	if testing.Short() {
		duration = 2 * time.Second
	}
	eachDialect(t, func(t *testing.T, v *env) {
		v.store()
		v.do("CREATE TABLE soak (id VARCHAR(10) PRIMARY KEY, v BIGINT NOT NULL, fence CHAR(40) NOT NULL)")
		for _, text := range journalOf[v.dialect] {
			v.do(text)
		}
		j := job{Kind: "soak", Keys: []string{"a", "b", "c"}, TTL: 300 * time.Millisecond}
		for _, k := range j.Keys {
			v.do("INSERT INTO soak VALUES ('" + k + "', 0, '" + lease.Fence{}.Text() + "')")
		}

		// On a slow machine it goes on, and the processes live longer, until something has happened.
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begun := time.Now()
		upTo := func(d time.Duration) time.Duration { return rand.N(d * (1 + time.Since(begun)/duration)) }
		var mu sync.Mutex
		events := map[string]int{}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for ctx.Err() == nil {
					life, end := context.WithCancel(context.Background())
					w := v.start(life, j)
					go func() {
						defer end() // kill -9
						for n := 1 + rand.IntN(8); n > 0 && ctx.Err() == nil; n-- {
							pause(ctx, upTo(500*time.Millisecond))
							w.signal(syscall.SIGSTOP)
							pause(ctx, rand.N(900*time.Millisecond))
							w.signal(syscall.SIGCONT)
							mu.Lock()
							events["stopped"]++
							mu.Unlock()
						}
						pause(ctx, upTo(300*time.Millisecond))
					}()
					for line := range w.lines {
						mu.Lock()
						events[line]++
						mu.Unlock()
					}
					mu.Lock()
					events["killed"]++
					mu.Unlock()
				}
			})
		}
		db := v.open()
		pause(ctx, duration)
		v.eventually("three leases that wrote", func() bool {
			var n int
			return db.QueryRow("SELECT COUNT(DISTINCT fence) FROM journal").Scan(&n) == nil && n >= 3
		})
		cancel()
		wg.Wait()

		rows, err := db.Query("SELECT k, fence FROM journal ORDER BY id")
		v.ok(err)
		defer rows.Close()
		last, changes, stale := map[string]string{}, 0, 0
		for rows.Next() {
			var k, fence string
			v.ok(rows.Scan(&k, &fence))
			switch before := last[k]; {
			case fence < before:
				stale++
				t.Errorf("stale write accepted: key %s, fence %s after %s", k, fence, before)
			case fence > before:
				changes++
			}
			last[k] = fence
		}
		v.ok(rows.Err())
		for e, n := range events {
			if strings.HasPrefix(e, "violation") {
				t.Errorf("%d times %s", n, e)
			}
		}
		if events["accepted"] == 0 || changes < 3 {
			t.Error("nothing happened")
		}
		t.Logf("%v; leases that wrote %d, stale writes accepted %d", events, changes, stale)
	})
}

func soak(ctx context.Context, j job, _ *sql.DB, s *sqlstore.Store) {
	db, err := fencedsql.Open(j.Driver, j.DSN, fencedsql.WithTables(fencedsql.Table{Name: "soak", Key: []string{"id"}}))
	if err != nil {
		fmt.Println("violation:", err)
		return
	}
	update := "UPDATE soak SET v = v + 1 WHERE id = ?"
	if j.Dialect == "postgres" {
		update = "UPDATE soak SET v = v + 1 WHERE id = $1"
	}
	locks := s.Locks("soak", j.TTL)
	for ctx.Err() == nil {
		key := j.Keys[rand.IntN(len(j.Keys))]
		first := sqlstore.First(func(ctx context.Context) error { return fencedsql.Raise(ctx, db, "soak", key) })
		err := locks.Hold(ctx, key, func(ctx context.Context, l *lease.Lease) error {
			for range 1 + rand.IntN(20) {
				// Its context is not heeded, so that stale writes do reach the database.
				_, err := db.ExecContext(context.WithoutCancel(ctx), update, key)
				switch {
				case err == nil:
					fmt.Println("accepted")
				case !errors.Is(err, fencedsql.ErrFenced):
					fmt.Println("failed")
				default:
					// The lease ended here before another was given, but one that was just stopped has yet to notice.
					// It has a hundred chances to, not a second: it may be stopped for that long.
					for n := 0; l.Err() == nil && n < 100; n++ {
						pause(context.Background(), 10*time.Millisecond)
					}
					if l.Err() == nil {
						fmt.Println("violation: a live holder was refused:", err)
					} else {
						fmt.Println("refused")
					}
					return err
				}
				pause(ctx, rand.N(10*time.Millisecond))
			}
			return nil
		}, first)
		switch {
		case errors.Is(err, lease.ErrLost):
			fmt.Println("lost")
		case errors.Is(err, fencedsql.ErrFenced):
			fmt.Println("refused at first")
		case err != nil:
			fmt.Println("not held")
		default:
			fmt.Println("held")
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
