package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// account is the system's user that runs a server; nil is this process's.
// Database servers refuse to run as root.
type account struct {
	name     string
	uid, gid uint32
}

// accountFor gives the account where this process is root's.
func accountFor(kind Kind, packages, name string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, missing(kind, packages, "root cannot run it, and there is no user %s", name)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
}

// own gives a file to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// newCommand makes a command that runs in dir as the account, in a process
// group of its own (a ^C is for the tests), with nothing of the environment
// that these programs take settings from, and gets the signal death when the
// thread that starts it ends. Both outputs go to the log.
//
// The account is set here and not by the programs' own --user: the kernel
// forgets the death signal when a process changes its user.
func newCommand(ctx context.Context, args []string, dir, log string, a *account, death syscall.Signal) (*exec.Cmd, func(), error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "TMPDIR=" + dir, "LC_ALL=C"}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: death}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return cmd, func() { out.Close() }, nil
}

// run runs a program to its end.
func run(ctx context.Context, args []string, dir, log string, a *account) error {
	cmd, done, err := newCommand(ctx, args, dir, log, a, syscall.SIGKILL)
	if err != nil {
		return err
	}
	defer done()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// process is a server's first process.
type process struct {
	pid  int
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was waited for
	err  error         // how; to be read after done
	mu   sync.Mutex    // held by kill and stop
}

// spawn starts a server.
func spawn(args []string, dir, log string, a *account, death syscall.Signal) (*process, error) {
	cmd, done, err := newCommand(context.Background(), args, dir, log, a, death)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer done()
		// The kernel ties the death signal to this thread, not to the process:
		// keep it for as long as the server lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		if p.err == nil {
			p.err = errors.New("exit status 0")
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.pid = cmd.Process.Pid
	return p, nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop sends a signal and waits for the end; a server that takes too long is
// killed, which is an error.
func (p *process) stop(sig syscall.Signal) error {
	const patience = 30 * time.Second
	if p.ended() {
		return nil
	}
	if sig == syscall.SIGKILL {
		return p.kill()
	}
	p.mu.Lock()
	err := p.cmd.Process.Signal(sig)
	p.mu.Unlock()
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("process %d did not end within %v of signal %d, and was killed", p.pid, patience, sig), p.kill())
	}
}

// kill kills the process and its children, and waits until they are gone.
func (p *process) kill() error {
	const patience = 30 * time.Second
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended() {
		return nil
	}
	// A stopped parent has no further children behind our back.
	p.cmd.Process.Signal(syscall.SIGSTOP)
	deadline := time.Now().Add(patience)
	for !p.ended() && time.Now().Before(deadline) {
		if stat, ok := readStat(p.pid); !ok || stat.state == 'T' || stat.state == 'Z' {
			break
		}
		time.Sleep(time.Millisecond)
	}
	children := childrenOf(p.pid)
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	for _, child := range children {
		child.kill()
	}
	<-p.done
	for _, child := range children {
		for child.alive() {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d, a child of %d, outlives kill -9", child.pid, p.pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// relative is a process that this one did not start itself. Its start time
// tells it from a later one with the same number.
type relative struct {
	pid   int
	start uint64
}

func (r relative) alive() bool {
	stat, ok := readStat(r.pid)
	return ok && stat.start == r.start && stat.state != 'Z' && stat.state != 'X'
}

func (r relative) kill() {
	handle, err := os.FindProcess(r.pid) // a handle on this very process
	if err != nil {
		return
	}
	defer handle.Release()
	if r.alive() {
		handle.Kill()
	}
}

// childrenOf gives a process's children.
func childrenOf(pid int) []relative {
	entries, _ := os.ReadDir("/proc")
	var children []relative
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if stat, ok := readStat(child); ok && stat.parent == pid {
			children = append(children, relative{child, stat.start})
		}
	}
	return children
}

// stat is of /proc/PID/stat: see proc(5).
type stat struct {
	state  byte
	parent int
	start  uint64 // in clock ticks since boot
}

func readStat(pid int) (stat, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	// The name may hold anything, but nothing after it a parenthesis.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return stat{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	start, err2 := strconv.ParseUint(string(fields[19]), 10, 64)
	return stat{fields[0][0], parent, start}, err1 == nil && err2 == nil
}
