package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// launcher is how to start a private server of some kind.
type launcher struct {
	kind    Kind
	name    string // of its folder
	account *account
	// prepare fills the server's folder, once: it initialises the data.
	prepare func(ctx context.Context, dir string) error
	// command is the server in the foreground, which logs to its standard error.
	command func(dir string, port int) []string
	// stale are files in the folder that a killed server leaves and that can
	// keep the next one from starting, as patterns.
	stale []string
	// base is the DSN for a port.
	base func(port int) string
	// identify reads from the server that answers a path within its folder: on
	// a taken port, another server answers.
	identify func(ctx context.Context, db *sql.DB) (string, error)
	console  string // the database to ask identify in
	// shutdown asks the server to end in its own time and leave its files in
	// order, abort to end at once. death is what the kernel sends it when the
	// test binary is gone.
	shutdown, abort, death syscall.Signal
}

const (
	// startTimeout covers the initialisation of a data directory on a busy
	// machine: a hundred times what it takes on an idle one.
	startTimeout = 2 * time.Minute
	pollInterval = 20 * time.Millisecond
	askTimeout   = 5 * time.Second // of one poll
	portAttempts = 20
	logTail      = 4 << 10 // bytes of the log in an error
)

// errPortTaken is a try that lost its port to another process.
var errPortTaken = errors.New("the port is in use")

// start starts a new server.
func start(ctx context.Context, kind Kind, l *launcher) (*Server, error) {
	fail := func(err error) (*Server, error) { return nil, fmt.Errorf("servers: %s: %w", kind, err) }
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dir, err := newServerDir(l)
	if err != nil {
		return fail(err)
	}
	s := &Server{Kind: kind, engine: engines[kind], launcher: l, dir: dir}
	abandon := func(err error) (*Server, error) {
		return fail(errors.Join(err, s.Stop()))
	}
	if err := l.prepare(ctx, dir); err != nil {
		return abandon(fmt.Errorf("%w\n%s", err, s.tail(0)))
	}
	for attempt := 1; ; attempt++ {
		if s.port, err = pickPort(); err != nil {
			return abandon(err)
		}
		s.base = l.base(s.port)
		err = s.launch(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, errPortTaken) || attempt == portAttempts {
			return abandon(err)
		}
	}
	if err := s.introduce(ctx); err != nil {
		return abandon(err)
	}
	running.Lock()
	running.list = append(running.list, s)
	running.Unlock()
	return s, nil
}

// launch starts the process and waits until it answers. On an error none is
// left. It is called with mu held, or before anybody else has s.
func (s *Server) launch(ctx context.Context) error {
	l := s.launcher
	for _, pattern := range l.stale {
		files, _ := filepath.Glob(filepath.Join(s.dir, pattern))
		for _, file := range files {
			os.Remove(file)
		}
	}
	from := s.logSize()
	command := l.command(s.dir, s.port)
	p, err := spawn(command, s.dir, s.logFile(), l.account, l.death)
	if err != nil {
		return err
	}
	s.process = p
	err = s.await(ctx)
	if err == nil {
		return nil
	}
	err = errors.Join(err, p.kill())
	log := s.tail(from)
	if strings.Contains(strings.ToLower(log), "address already in use") {
		return errPortTaken
	}
	return fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, log)
}

// await polls until the server answers, has ended, or ctx has.
func (s *Server) await(ctx context.Context) error {
	dsn, err := s.engine.dsn.join(s.base, s.launcher.console, nil)
	if err != nil {
		return err
	}
	db, err := s.engine.dsn.open(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	// On a taken port, whoever has it may keep us waiting: ours has then ended.
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := s.process.done
	go func() {
		select {
		case <-ended:
			cancel()
		case <-asking.Done():
		}
	}()
	for {
		path, err := s.identify(asking, db)
		if err == nil && !within(path, s.dir) {
			// Ours will find its port taken and end.
			err = errors.New("another server answers on its port")
		}
		if s.process.ended() {
			return fmt.Errorf("ended before it answered: %w", s.process.err)
		}
		if err == nil {
			return nil
		}
		if err := pause(ctx, err); err != nil {
			return fmt.Errorf("does not answer: %w", err)
		}
	}
}

// identify asks once, and not for long: a server that is about to answer may
// have dropped the question.
func (s *Server) identify(ctx context.Context, db *sql.DB) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return s.launcher.identify(ctx, db)
}

// pause waits for the time between two polls; if ctx ends, it returns why,
// with the last poll's error.
func pause(ctx context.Context, last error) error {
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w (last: %w)", context.Cause(ctx), last)
	case <-timer.C:
		return nil
	}
}

// within tells whether path is dir or below it, links followed.
func within(path, dir string) bool {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

func (s *Server) logFile() string { return filepath.Join(s.dir, logName) }

// logName is the log's file in the server's folder.
const logName = "log"

func (s *Server) logSize() int64 {
	info, err := os.Stat(s.logFile())
	if err != nil {
		return 0
	}
	return info.Size()
}

// Log gives the end of a private server's log, to be shown where a test has
// failed.
func (s *Server) Log() string {
	if !s.Private() {
		return ""
	}
	return s.tail(0)
}

// tail gives the end of the log, of what came after an offset.
func (s *Server) tail(from int64) string {
	f, err := os.Open(s.logFile())
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	defer f.Close()
	if size := s.logSize(); size-from > logTail {
		from = size - logTail
	}
	text, err := io.ReadAll(io.NewSectionReader(f, from, logTail))
	if err != nil {
		return err.Error()
	}
	return "its log:\n" + strings.TrimSpace(string(text))
}
