Gem::Specification.new do |s|
  s.name = "berth-agent"
  s.version = "0.1.0"
  s.summary = "Permits of berth agent: counting semaphores on Redis that all programs share"
  s.authors = ["The berth authors"]
  s.license = "MIT"
  s.homepage = "https://github.com/berth-go/berth"
  s.files = ["lib/berth.rb", "README.md"]
  s.required_ruby_version = ">= 3.0"
end
