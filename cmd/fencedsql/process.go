package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// state is a change of a process that its parent is told of.
type state struct {
	stopped   bool // by SIGSTOP
	continued bool
	ended     bool
	clean     bool   // ended with exit status 0
	text      string // "stopped by SIGSTOP", "exit status 0", …
}

// process is a running worker. Its states come from the system (see watch) and its reports from itself.
type process struct {
	name    string
	pid     int
	os      *os.Process
	in      io.WriteCloser
	reports chan reported // closed when its output ends
	states  <-chan state  // closed when it has ended
}

type reported struct {
	report
	err error
}

// start starts a worker process and tells it its job. End it with kill, whatever happens.
func start(exe string, j job) (*process, error) {
	cmd := exec.Command(exe, workerCommandName)
	cmd.Stderr = os.Stderr
	ownGroup(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{name: j.Worker, pid: cmd.Process.Pid, os: cmd.Process, in: in, reports: make(chan reported, 1)}
	p.states = watch(cmd.Process)
	go func() {
		defer close(p.reports)
		defer out.Close()
		for lines := json.NewDecoder(out); ; {
			var r reported
			r.err = lines.Decode(&r.report)
			if r.err == io.EOF {
				return
			}
			p.reports <- r
			if r.err != nil {
				return
			}
		}
	}()
	if err := p.tell(j.line()); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

// next waits for the report of a step.
func (p *process) next(ctx context.Context, step string) (report, error) {
	select {
	case r, ok := <-p.reports:
		switch {
		case !ok:
			return report{}, p.errorf("it ended before the step %q", step)
		case r.err != nil:
			return report{}, p.errorf("step %q: %w", step, r.err)
		case r.Step != step:
			return report{}, p.errorf("step %q came where %q was due", r.Step, step)
		}
		return r.report, nil
	case <-ctx.Done():
		return report{}, p.errorf("step %q: %w", step, context.Cause(ctx))
	}
}

// tell sends it a line. It does not wait for it to be read.
func (p *process) tell(line string) error {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return p.errorf("%w", err)
	}
	return nil
}

// pause stops it and waits until the system says that it is stopped.
func (p *process) pause(ctx context.Context) (state, error) {
	if err := sendStop(p.os); err != nil {
		return state{}, p.errorf("%w", err)
	}
	for {
		select {
		case s := <-p.states:
			if !s.continued { // by a call of resume before
				return s, nil
			}
		case <-ctx.Done():
			return state{}, p.errorf("it does not stop: %w", context.Cause(ctx))
		}
	}
}

// pauseUnless is pause at a moment when there is no harm in it. It continues the process and tries again as long as
// there is.
func (p *process) pauseUnless(ctx context.Context, harm func(context.Context) (bool, error)) (state, error) {
	for {
		s, err := p.pause(ctx)
		if err != nil || !s.stopped {
			return s, err
		}
		if bad, err := harm(ctx); !bad || err != nil {
			return s, err
		}
		if _, err := p.resume(); err != nil {
			return s, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return s, p.errorf("it finds no moment to stop it: %w", context.Cause(ctx))
		}
	}
}

// resume continues it. undisturbed says that it was stopped until now.
func (p *process) resume() (undisturbed bool, err error) {
	select {
	case <-p.states:
	default:
		undisturbed = true
	}
	if err := sendContinue(p.os); err != nil {
		return undisturbed, p.errorf("%w", err)
	}
	return undisturbed, nil
}

// wait waits until it has ended by itself.
func (p *process) wait(ctx context.Context) (state, error) {
	for {
		select {
		case s, ok := <-p.states:
			if !ok {
				return state{}, p.errorf("it is gone")
			}
			if s.ended {
				return s, nil
			}
		case <-ctx.Done():
			return state{}, p.errorf("it does not end: %w", context.Cause(ctx))
		}
	}
}

// kill ends it, stopped or not, and waits for its end; that it had ended already is no error.
func (p *process) kill() error {
	p.in.Close()
	go func() {
		for range p.reports { // so that its reader ends
		}
	}()
	late := time.After(5 * time.Second)
	for sent := false; ; {
		select {
		case _, ok := <-p.states:
			if !ok {
				return nil
			}
			continue
		default:
		}
		if !sent { // only now: after its end the number may be another process's
			sent = true
			if err := p.os.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return p.errorf("%w", err)
			}
		}
		select {
		case _, ok := <-p.states:
			if !ok {
				return nil
			}
		case <-late: // it is in a system call that cannot be interrupted
			return p.errorf("it was killed and has not ended")
		}
	}
}

func (p *process) errorf(format string, args ...any) error {
	return fmt.Errorf("worker %s (process %d): %w", p.name, p.pid, fmt.Errorf(format, args...))
}
