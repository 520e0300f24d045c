-- ---- the lone way: one operation, and nothing out of the ordinary ----
--
-- An acquire on a semaphore that is not in use, or one that has to wait; the
-- release of the only lease, or one that hands its permits and its slot to the
-- first in line. This is what the short way would do, without its tables and
-- loops (docs/decisions). Numbers stay text where they are only copied.

if top == 3 and not ARGV[7] and (ARGV[3] == '1' or ARGV[3] == '0') then
  local id, record = ARGV[6], got[3]
  if not settings then
    local weight, ttl, declared, label = match(ARGV[4], '^A[01] (%d+) (%d+) %d+ %d+ %d+ 0 (%d+) (.*)$')
    if weight and weight + 0 <= declared + 0 and call('EXISTS', STATE, ORDER) == 0 then
      local till = now + ttl
      local score, lapse = format(WHOLE, till), ARGV[3] == '1' and format(WHOLE, till + 60000) or '0'
      counts = weight .. ' 1 0 0 1 ' .. stamp .. ' ' .. score .. ' ' .. lapse
      call('ZADD', ORDER, score, id)
      call('HSET', STATE, 'settings', '1 ' .. declared .. ' -1 0 0', 'counts', counts,
        id, 'h ' .. weight .. ' 0 ' .. stamp .. ' 0 0 ' .. ARGV[2] .. ' ' .. label)
      if lapse ~= '0' then
        call('PEXPIREAT', STATE, lapse)
        call('PEXPIREAT', ORDER, lapse)
      end
      return stamp .. ' 0 ' .. counts .. ' 1 ' .. stamp .. ' 0 ' .. ttl .. ' ' .. declared
    end
  else
    local limit = match(settings, '^1 (%d+) %-1 0 %d+$')
    local used, holders, waiting, tombs, slots, last, soonest, lapse =
      match(limit and counts or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    if not used or last + 0 >= us or soonest + 0 <= now or (lapse ~= '0') ~= (ARGV[3] == '1') then
      -- the general way will see
    elseif ARGV[4] == 'L0' then
      local weight, slot = match(record or '', '^h (%d+) (%d+) ')
      if weight and holders == '1' and waiting == '0' and tombs == '0' then
        call('DEL', STATE, ORDER)
        return stamp .. NOTHING .. ' 9'
      elseif weight and waiting ~= '0' and used == limit and holders == slots then
        local head = call('ZRANGE', ORDER, '0', '0')[1] or ''
        local heir = sub(head, 2)
        local same, owner, label = match(call('HMGET', STATE, heir)[1] or '', '^w (%d+) %d+ 0 (%S+)(.*)$')
        if same == weight then
          counts = used .. ' ' .. holders .. format(' %d ', waiting - 1) .. tombs .. ' ' .. slots .. ' '
            .. stamp .. ' ' .. soonest .. ' ' .. lapse
          call('ZREM', ORDER, id, head)
          call('HDEL', STATE, id)
          call('HSET', STATE, 'counts', counts, heir, 'h ' .. weight .. ' ' .. slot .. ' ' .. stamp .. ' 0 0 ' .. owner .. label)
          publish(match(owner, '^[^/]+'), STATE .. '\ng ' .. heir .. ' ' .. stamp .. ' ' .. slot .. ' ' .. limit)
          return stamp .. ' 0 ' .. counts .. ' 9'
        end
      end
    elseif not record then
      local weight, hb, qlimit, maxhold, declared, label = match(ARGV[4], '^A1 (%d+) %d+ (%d+) 0 (%d+) (%d+) (%d+) (.*)$')
      local till = now + (hb or 0)
      if declared == limit and weight + 0 <= limit + 0 and (waiting ~= '0' or used + weight > limit + 0)
          and waiting + 0 < qlimit + 0 and (lapse == '0' or till + 1000 <= lapse + 0) then
        local score, queue = format(WHOLE, till), format('%d', waiting + 1)
        if till < soonest + 0 then soonest = score end
        counts = used .. ' ' .. holders .. ' ' .. queue .. ' ' .. tombs .. ' ' .. slots .. ' '
          .. stamp .. ' ' .. soonest .. ' ' .. lapse
        call('ZADD', ORDER, score, id, format(WHOLE, us - FRONT), 'q' .. id)
        call('HSET', STATE, 'counts', counts,
          id, 'w ' .. weight .. ' ' .. sub(stamp, 1, -4) .. ' ' .. maxhold .. ' ' .. ARGV[2] .. ' ' .. label)
        return stamp .. ' 0 ' .. counts .. ' 2 ' .. waiting .. ' ' .. used .. ' ' .. limit .. ' ' .. queue
      end
    end
  end
end

