package lend

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Board counts who believes to hold a permit, over all processes that have it
// mapped: the clocks of processes need not agree to compare what they believe.
type Board struct {
	memory []byte
	held   *atomic.Int64
	most   *atomic.Int64
}

// boardSize is a page; the two counters are on cache lines of their own.
const boardSize = 4096

// OpenBoard maps the board in a file, which is made if it is not there.
func OpenBoard(name string) (*Board, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(boardSize); err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, boardSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &Board{
		memory: memory,
		held:   (*atomic.Int64)(unsafe.Pointer(&memory[0])),   //nolint:gosec // a page is aligned
		most:   (*atomic.Int64)(unsafe.Pointer(&memory[128])), //nolint:gosec // as above
	}, nil
}

// Take notes that somebody was told to have a permit.
func (b *Board) Take() {
	now := b.held.Add(1)
	for most := b.most.Load(); now > most && !b.most.CompareAndSwap(most, now); most = b.most.Load() {
	}
}

// Give notes that somebody is about to give it back.
func (b *Board) Give() { b.held.Add(-1) }

// Most returns how many believed to hold a permit at once, at most.
func (b *Board) Most() int64 { return b.most.Load() }

// Close forgets the board; its file stays.
func (b *Board) Close() { _ = unix.Munmap(b.memory) }
