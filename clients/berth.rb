# Permits of `berth agent`, for Ruby 3.0 or later: Berth.hold("api", 5) { |lease| ... }
%w[json socket].each { |library| require library }

# A permit. lost is nil, or why it is gone; stop is nil, or why the work has to end.
class Berth
  Refused, Lost = Class.new(StandardError), Class.new(StandardError)
  attr_reader :slot, :token, :lost, :stop
  private_class_method :new # a hold without a block could be forgotten
  # Waits for a permit, yields it, and gives it back. The terms are the agent's fields.
  def self.hold(name, limit = nil, **terms)
    lease = new
    result = begin
      lease.send(:acquire, { name: name, limit: limit, **terms }.compact)
      yield lease
    ensure # of a wait, too, that a time limit or a signal ends
      lease.release
    end
    lease.lost ? raise(Lost, lease.lost) : result
  end
  def initialize = @pid = Process.pid
  # Whether the permit can be relied on now. CLOCK_BOOTTIME is Linux's.
  def valid? = @lost.nil? && Process.clock_gettime(Process::CLOCK_BOOTTIME, :millisecond) < @until
  def beat = (@socket.write("\n") if ours?) # a sign of life, for beat_ms
  def release # in ten seconds at most
    @asked = true
    # In the other order a fork's copy would keep the connection.
    [Socket::SHUT_WR, Socket::SHUT_RDWR].each { |how| (@socket.shutdown(how) rescue nil; @reader&.join(10)) } if ours? && @socket
    @socket&.close
  end
  private

  def ours? = Process.pid == @pid # a fork has a copy of the connection, on which it must say nothing
  def acquire(terms)
    own = Process.euid.zero? && File.directory?("/run") ? "/run/berth" : "/tmp/berth-#{Process.euid}"
    own, path, body = given("BERTH_STORE_DIR") || own, given("BERTH_AGENT_SOCKET"), JSON.generate(terms)
    raise "another user made #{own}" unless path || File.lstat(own).uid == Process.euid
    @socket, answer = UNIXSocket.new(path || "#{own}/agent.sock"), { "event" => "queued" }
    @socket.write("POST /v1/hold HTTP/1.1\r\nHost: agent\r\nContent-Length: #{body.bytesize}\r\n\r\n#{body}")
    nil until @socket.gets.to_s.strip.empty? # the status and headers: the lines have it all
    answer = JSON.parse(@socket.gets || '{"error": "gone"}') while answer["event"] == "queued"
    raise Refused, answer.values_at("error", "message").join(": ") unless answer["event"] == "granted"
    @slot, @token, @until = answer.values_at("slot", "token", "until_boot_ms")
    @reader = Thread.new { read }
  end
  def given(name) = ENV[name].to_s.empty? ? nil : ENV[name]
  def read
    event = {}
    while (line = (@socket.gets rescue nil))
      @until = (event = JSON.parse(line)).fetch("until_boot_ms", @until)
      @stop ||= event["reason"] if event["event"] == "stop"
    end
    return if @asked && event["event"] == "released"
    @stop = @lost = event["event"] == "released" ? "it was given back, but not by this program" : event.fetch("message", "the agent has ended")
  end
end
