package lend

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Board counts the believed holders of permits in all processes that have mapped it, so
// that their beliefs can be compared without comparing clocks.
type Board struct {
	memory []byte
	held   *atomic.Int64
	most   *atomic.Int64
}

// boardSize is a page. The two counters are on different cache lines.
const boardSize = 4096

// OpenBoard maps the board in a file, which it creates if necessary.
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

// Take counts a holder that was told it has a permit.
func (b *Board) Take() {
	now := b.held.Add(1)
	for most := b.most.Load(); now > most && !b.most.CompareAndSwap(most, now); most = b.most.Load() {
	}
}

// Give uncounts a holder that is about to release its permit.
func (b *Board) Give() { b.held.Add(-1) }

// Most returns the largest number of believed holders at one time.
func (b *Board) Most() int64 { return b.most.Load() }

// Close unmaps the board. Its file stays.
func (b *Board) Close() { _ = unix.Munmap(b.memory) }
