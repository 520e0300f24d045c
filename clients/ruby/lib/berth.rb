# Permits of `berth agent`, for Ruby 3.0 or later:
#
#   Berth.hold("api", 5) { |lease| ... }
#   Berth.hold([{ name: "customer/7", limit: 2 }, { name: "api", limit: 20 }]) { ... } # narrow ones first
#   Berth.cooldown("api", 30) # the API wants a pause
#   Berth.hold("llm", 20, rates: [{ unit: "tokens", n: 90_000, per_ms: 60_000 }], costs: { tokens: 1200 }) do |lease|
#     lease.settle(tokens: 917) # what it really was
#   end
#
# The agent is at $BERTH_AGENT_SOCKET, a path or ADDRESS:PORT, where it needs $BERTH_AGENT_TOKEN, or
# beside this user's local store.
require "json"
require "socket"
require "timeout"

# A permit that this program holds.
class Berth
  # An agent that works has answered in so many seconds.
  MARGIN = 10

  # There is no permit. error is a word: busy, queue_full, timeout, redis, gone, ... fields says what is
  # wrong with each term. retry_after is in how many seconds there can be room, if that is known. name,
  # in_use, limit, waiting and paused are what was found, or nil.
  class Refused < StandardError
    attr_reader :status, :error, :fields, :retry_after, :name, :in_use, :limit, :waiting, :paused, :answer

    def initialize(answer)
      @answer, @error, @fields = answer, answer["error"], answer.fetch("fields", {})
      @status, @name, @in_use, @limit = answer.values_at("status", "name", "in_use", "limit")
      @waiting, @paused = answer.values_at("waiting", "paused")
      @retry_after = answer["retry_after_ms"]&.fdiv(1000)
      super("#{@error}: #{answer["message"]}")
    end
  end

  # The permit was lost while it was held. reason is why: evicted, silent, untrusted, gone, ...
  class Lost < StandardError
    attr_reader :reason

    def initialize(event)
      @reason = event.fetch("reason", "gone")
      super(event.fetch("message", "the agent has ended"))
    end
  end

  # slot is a number below the limit that no other holder has, token one for fencing. Where there are
  # several limits, all has the name, slot, token and limit of each. stop is nil, or why the work has to
  # end.
  attr_reader :slot, :token, :all, :stop

  private_class_method :new # a hold without a block could be forgotten

  # Waits for a permit, or for one of each of several limits, yields it, and gives it back. The terms are the agent's fields, such as
  # wait_ms: 1000. Raises Refused if there is no permit, a SystemCallError if there is no agent, and
  # Lost if the permit was lost.
  def self.hold(name, limit = nil, **terms)
    lease = new
    what = name.is_a?(Array) ? { all: name } : { name: name, limit: limit }.compact
    result = begin
      lease.send(:acquire, { **terms, **what }.compact)
      yield lease
    ensure # of a wait, too, that a time limit or a signal ends
      lease.release
    end
    lease.send(:check)
    result
  end

  # Pauses a semaphore for all programs, as when an API answers 429: nobody is granted before then. A
  # longer pause is not shortened. Raises Refused, and a SystemCallError if there is no agent.
  def self.cooldown(name, seconds, **terms)
    new.send(:cool, { **terms, name: name, for_ms: (seconds * 1000).round })
  end

  def initialize
    @pid = Process.pid
  end

  # nil, or why the permit is gone.
  def lost = @lost&.message

  # Whether the permit can be relied on now.
  def valid? = @lost.nil? && Process.clock_gettime(CLOCK, :millisecond) < @until

  # CLOCK_BOOTTIME is Linux's.
  CLOCK = defined?(Process::CLOCK_BOOTTIME) ? Process::CLOCK_BOOTTIME : Process::CLOCK_MONOTONIC

  # A sign of life, for beat_ms.
  def beat
    @socket.write("\n") if ours?
  end

  # Says what the permit has really cost, by unit; less than was asked for is free at once. The last word
  # counts. A warning says what is not possible, as for a unit that has no rate.
  def settle(costs)
    @socket.write(JSON.generate({ settle: costs }), "\n") if ours?
  end

  # Returns when the permit was given back, or after ten seconds.
  def release
    @asked = true
    if ours? && @socket
      shut(Socket::SHUT_WR)
      @reader&.join(MARGIN)
      shut(Socket::SHUT_RDWR) # or a fork's copy would keep the connection
      @reader&.join(MARGIN)
    end
    @socket&.close
  end

  private

  # A fork has a copy of the connection, on which it must say nothing.
  def ours? = Process.pid == @pid

  def shut(how)
    @socket.shutdown(how)
  rescue SystemCallError, IOError
    nil # it has ended already
  end

  def acquire(terms)
    most = terms[:wait_ms] && (terms[:wait_ms] / 1000.0) + MARGIN
    answer = ask("hold", terms, most)
    raise Refused, answer unless answer["event"] == "granted"
    @slot, @token, @until = answer.values_at("slot", "token", "until_boot_ms")
    @all = answer.fetch("all", [])
    @reader = Thread.new { read }
  end

  def cool(terms)
    answer = ask("cooldown", terms, MARGIN)
    raise Refused, answer unless answer["event"] == "paused"
  ensure
    @socket&.close
  end

  def ask(path, terms, most)
    Timeout.timeout(most, Late) { converse(path, terms) }
  rescue Late
    raise Refused, { "error" => "gone", "message" => "the agent does not answer" }
  end

  # Raised in place of Timeout::Error, which may be a caller's time limit.
  Late = Class.new(StandardError)
  private_constant :Late

  # Sends the request, and returns the answer.
  def converse(path, terms)
    @socket = connect
    body, token = JSON.generate({ pid: Process.pid, **terms }), given("BERTH_AGENT_TOKEN")
    head = ["POST /v1/#{path} HTTP/1.1", "Host: agent", "Connection: close", "Content-Length: #{body.bytesize}"]
    head << "Authorization: Bearer #{token}" if token
    @socket.write(head.join("\r\n"), "\r\n\r\n", body)
    nil until @socket.gets.to_s.strip.empty? # the status and headers: the lines have it all
    loop do
      answer = event or return { "error" => "gone", "message" => "the agent has ended" }
      return answer unless answer["event"] == "queued"
    end
  end

  def connect
    where = given("BERTH_AGENT_SOCKET")
    return UNIXSocket.new(where || own) unless where&.match?(/\A[^\/]*:\d+\z/)
    host, _, port = where.rpartition(":")
    TCPSocket.new(host.delete("[]"), port.to_i)
  end

  # The agent beside this user's local store.
  def own
    dir = given("BERTH_STORE_DIR")
    dir ||= Process.euid.zero? && File.directory?("/run") ? "/run/berth" : "/tmp/berth-#{Process.euid}"
    raise "another user made #{dir}" unless File.lstat(dir).uid == Process.euid
    "#{dir}/agent.sock"
  end

  def given(name) = ENV[name].to_s.empty? ? nil : ENV[name]

  # Returns the next line, or nil at the end.
  def event
    line = @socket.gets or return nil
    parsed = JSON.parse(line)
    raise JSON::ParserError unless parsed.is_a?(Hash) && (parsed["event"] || parsed["error"])
    parsed
  rescue JSON::ParserError
    { "error" => "gone", "message" => "what answers there is not berth agent" }
  rescue SystemCallError, IOError
    nil # the connection broke, which is an end, too
  end

  def read
    last = {}
    while (line = event)
      last = line
      @until = last.fetch("until_boot_ms", @until)
      @stop ||= last["reason"] if last["event"] == "stop"
      warn "berth: what a permit has cost was not settled: #{last["message"]}" if last["event"] == "unsettled"
      break if last["error"]
    end
    return if @asked && last["event"] == "released"
    last = { "message" => "it was given back, but not by this program", "reason" => "released" } if last["event"] == "released"
    @lost = Lost.new(last)
    @stop ||= lost
  end

  def check
    raise @lost if @lost
  end
end
