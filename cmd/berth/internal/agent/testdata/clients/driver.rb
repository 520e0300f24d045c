# Holds a permit and does what standard input says. Both sides speak JSON.
require "berth"
$stdout.sync = true
def say(*words) = puts(JSON.generate(words.join(" ")))
trap("INT") do # a fork has a copy of the connection for as long as this process lives
  last, $mine = IO.pipe
  fork do
    $mine.close
    last.read
    exit!
  end
  raise Interrupt
end
begin
  name, limit, terms, mode = ARGV[0], Integer(ARGV[1]), JSON.parse(ARGV[2], symbolize_names: true), ARGV[3]
  if mode == "cool"
    Berth.cooldown(name, 600.0, label: "import")
    say "paused"
    exit
  end
  what = mode == "all" ? [[{ name: "narrow", limit: 1 }, { name: name, limit: limit }]] : [name, limit]
  Berth.hold(*what, **terms) do |lease|
    say "granted", lease.slot, *lease.all.map { |one| one["name"] }
    Thread.new do
      sleep 0.01 until lease.stop
      say "stop"
    end
    while (line = $stdin.gets)
      case JSON.parse(line)
      when "beat"
        lease.beat
        say "beat"
      when "settle"
        lease.settle(tokens: 0)
        say "settled"
      when "valid" then say "valid", lease.valid?
      when "fork"
        pid = fork or exit
        Process.wait pid
        say "forked"
      else break
      end
    end
  end
  say "released"
rescue Berth::Refused => e
  say "refused", e.error, *(e.in_use && [e.name, "#{e.in_use}/#{e.limit}", e.waiting, e.status])
rescue SystemCallError, RuntimeError => e # there is no agent of ours
  say "refused", e.message
rescue Berth::Lost
  say "lost"
rescue Interrupt
  say "gave up"
  $stdin.read
end
