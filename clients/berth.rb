# Permits of `berth agent`, for Ruby 3.0 or later: Berth.hold("api", 5) { |lease| ... }
%w[json socket].each { |library| require library }

# A permit. lost is nil, or why it is gone; stop is nil, or why the work has to end.
class Berth
  Refused, Lost = Class.new(StandardError), Class.new(StandardError)
  attr_reader :slot, :token, :lost, :stop
  # Waits for a permit, yields it, and gives it back. The terms are the agent's fields.
  def self.hold(name, limit = nil, **terms)
    lease = new({ name: name, limit: limit, **terms }.compact)
    result = begin yield lease ensure lease.release end
    lease.lost ? raise(Lost, lease.lost) : result
  end
  def initialize(terms)
    own = Process.euid.zero? && File.directory?("/run") ? "/run/berth" : "/tmp/berth-#{Process.euid}"
    own, path, body = ENV.fetch("BERTH_STORE_DIR", own), ENV["BERTH_AGENT_SOCKET"], JSON.generate(terms)
    raise "another user made #{own}" unless path || File.lstat(own).uid == Process.euid
    @socket, answer = UNIXSocket.new(path || "#{own}/agent.sock"), { "event" => "queued" }
    @socket.write("POST /v1/hold HTTP/1.1\r\nHost: agent\r\nContent-Length: #{body.bytesize}\r\n\r\n#{body}")
    nil until @socket.gets.to_s.strip.empty? # the status and headers: the lines have it all
    answer = JSON.parse(@socket.gets || '{"error": "gone"}') while answer["event"] == "queued"
    raise Refused, answer.values_at("error", "message").join(": ") unless answer["event"] == "granted"
    @slot, @token, @until = answer.values_at("slot", "token", "until_boot_ms")
    @reader = Thread.new { read }
  ensure
    @socket&.close unless @reader
  end
  # Whether the permit can be relied on now. CLOCK_BOOTTIME is Linux's.
  def valid? = @lost.nil? && Process.clock_gettime(Process::CLOCK_BOOTTIME, :millisecond) < @until
  def beat = @socket.write("\n") # a sign of life, for beat_ms
  def release = (@socket.close_write rescue nil; @reader.join(10); @socket.close) # in ten seconds at most
  private def read
    event = {}
    while (line = (@socket.gets rescue nil))
      @until = (event = JSON.parse(line)).fetch("until_boot_ms", @until)
      @stop ||= event["reason"] if event["event"] == "stop"
    end
    @stop = @lost = event.fetch("message", "the agent has ended") unless event["event"] == "released"
  end
end
