// Package top shows semaphores live on a terminal. The model uses neither Redis nor a terminal
// directly: it shows the data of a berthwatch.Sampler, and never waits.
package top

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthwatch"
)

const (
	// frame is how often the screen is updated.
	frame = 250 * time.Millisecond
	// remark is how long the result of an action is shown.
	remark = 8 * time.Second
	// actionTimeout bounds an action.
	actionTimeout = 5 * time.Second
)

// Config has the model's sources. Of its functions, only Do and Server may wait for Redis.
type Config struct {
	Look     func() berthwatch.View
	Detail   func(name string) berthwatch.Detail
	Refresh  func(name string) // what was changed is to be read again
	History  func(name string, since time.Time) []berthwatch.Point
	Do       func(context.Context, berthwatch.Action) error
	Server   func(context.Context) string // what the server says of itself, "" if it does not
	Command  string                       // what the commands that are shown begin with: berth, and its flags
	ReadOnly string                       // why nothing may be changed; "": it may
	ASCII    bool                         // the terminal shows nothing else
}

// screen is one of the screens.
type screen int

const (
	listScreen screen = iota
	detailScreen
	eventsScreen
	helpScreen
)

// Model is the state of the screen.
type Model struct {
	cfg           Config
	style         style
	width, height int
	plain         bool // there is no history to draw
	now           time.Time
	server        string

	view   berthwatch.View
	frozen bool // the display is paused

	screen   screen
	back     screen // where esc leads from events and help
	visible  []berthwatch.Row
	selected string // name of the row
	top      int    // first row that is shown
	sort     int    // of orders
	reverse  bool
	filter   string
	typing   bool // the filter is being typed
	only     bool // contended ones

	name   string // of the semaphore in detail
	detail berthwatch.Detail
	queue  bool      // the cursor is in the queue, not among the holders
	at     [2]int    // where it is among the holders and in the queue
	id     [2]string // whom it is at there, which it follows
	from   int       // first event that is shown

	dialog *dialog
	note   string // the outcome of the last action
	bad    bool   // which was a failure
	until  time.Time
}

// New returns a model; its screen gets a size later.
func New(cfg Config) *Model {
	return &Model{cfg: cfg, style: colours(), width: 80, height: 24}
}

type (
	tickMsg   time.Time
	serverMsg string
	doneMsg   struct {
		action berthwatch.Action
		err    error
	}
)

func tick() tea.Cmd { return tea.Tick(frame, func(t time.Time) tea.Msg { return tickMsg(t) }) }

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd { return tea.Batch(tick(), m.askServer()) }

func (m *Model) askServer() tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), actionTimeout)
		defer cancel()
		return serverMsg(m.cfg.Server(ctx))
	}
}

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tickMsg:
		m.now = time.Time(msg)
		m.refresh()
		return m, tick()
	case serverMsg:
		m.server = string(msg)
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case doneMsg:
		m.say(outcome(msg.action, msg.err), msg.err != nil)
		m.cfg.Refresh(msg.action.Name)
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		if m.typing || m.dialog != nil {
			m.insert(msg.Content)
		}
	}
	return m, nil
}

// refresh takes the sampler's present data.
func (m *Model) refresh() {
	if m.frozen {
		return
	}
	m.view = m.cfg.Look()
	if name := m.focus(); name != "" {
		m.detail = m.cfg.Detail(name)
	}
	m.arrange()
	m.follow()
}

// follow keeps the cursor on the same holder or waiter while others come and go.
func (m *Model) follow() {
	s := m.detail.State
	if s == nil {
		return
	}
	for i, ids := range [2][]string{idsOf(s.Leases, func(h *berth.Holder) string { return h.ID }), idsOf(s.Queue, func(w *berth.Waiter) string { return w.ID })} {
		if at := slices.Index(ids, m.id[i]); at >= 0 {
			m.at[i] = at
		}
		m.at[i] = max(0, min(m.at[i], len(ids)-1))
		m.id[i] = ""
		if len(ids) > 0 {
			m.id[i] = ids[m.at[i]]
		}
	}
	m.queue = m.queue && len(s.Queue) > 0
}

func idsOf[T any](all []T, id func(*T) string) []string {
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = id(&all[i])
	}
	return ids
}

// focus returns the semaphore to be read in full.
func (m *Model) focus() string {
	if m.screen == detailScreen || m.back == detailScreen && m.screen != listScreen {
		return m.name
	}
	return ""
}

func (m *Model) say(text string, bad bool) {
	m.note, m.bad, m.until = text, bad, m.now.Add(remark)
}

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView(m.text())
	v.AltScreen = true
	v.WindowTitle = "berth top"
	return v
}

// text returns the whole screen, a line for each of its rows.
func (m *Model) text() string {
	lines := m.header()
	room := max(m.height-len(lines)-1, 1)
	switch {
	case m.dialog != nil:
		lines = append(lines, m.dialogLines()...)
	case m.screen == detailScreen:
		lines = append(lines, m.detailLines(room)...)
	case m.screen == eventsScreen:
		lines = append(lines, m.eventLines(room)...)
	case m.screen == helpScreen:
		lines = append(lines, m.helpLines(room)...)
	default:
		lines = append(lines, m.listLines(room)...)
	}
	return m.style.page(lines, m.width, m.height, m.footer(), m.cfg.ASCII)
}
