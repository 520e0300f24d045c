/** The fields of a limit: docs/agent-http.md says what each means. */
export interface LimitTerms {
  queue_limit?: number;
  weight?: number;
  rate?: number;
  per_ms?: number;
  cost?: number;
  rates?: { unit?: string; n: number; per_ms: number; burst?: number }[];
  /** By unit. */
  costs?: Record<string, number>;
  tenant?: string;
  share?: number;
  [field: string]: unknown;
}

/** One of several limits. */
export interface Limit extends LimitTerms {
  name: string;
  limit?: number;
}

/** The fields of a request for several permits. */
export interface HoldTerms {
  wait_ms?: number;
  fail_early?: boolean;
  ttl_ms?: number;
  max_hold_ms?: number;
  beat_ms?: number;
  head_start_ms?: number;
  label?: string;
  pid?: number;
  [field: string]: unknown;
}

/** The fields of a request for a permit. */
export type Terms = HoldTerms & LimitTerms;

/** What the agent says where there is no permit. */
export interface Answer {
  error: string;
  message: string;
  status?: number;
  fields?: Record<string, string>;
  retry_after_ms?: number;
  name?: string;
  in_use?: number;
  limit?: number;
  waiting?: number;
  paused?: boolean;
}

/** There is no permit. */
export declare class Refused extends Error {
  /** A word: busy, queue_full, timeout, redis, gone, ... */
  readonly code: string;
  /** In how many milliseconds there can be room, if that is known. */
  readonly retryAfter?: number;
  /** What is wrong with each field. */
  readonly fields?: Record<string, string>;
  readonly status?: number;
  /** What was found, if that is known. */
  readonly semaphore?: string;
  readonly inUse?: number;
  readonly limit?: number;
  readonly waiting?: number;
  readonly paused?: boolean;
  readonly answer: Answer;
}

/** The permit was lost while it was held. */
export declare class Lost extends Error {
  /** Why: evicted, silent, untrusted, gone, ... */
  readonly code: string;
}

/** A permit that this program holds. */
export declare class Lease implements AsyncDisposable {
  private constructor();
  /** A number below the limit that no other holder has. */
  readonly slot: number;
  /** A number for fencing: a later grant has a larger one. */
  readonly token: number;
  /** Where there are several limits: the permit of each. slot and token are those of the first. */
  readonly all: { name: string; slot: number; token: number; limit: number }[];
  /** Why the permit is gone, if it is. */
  readonly lost?: string;
  /** Ends when the work has to. */
  readonly signal: AbortSignal;
  /** Whether the permit can be relied on now. */
  valid(): boolean;
  /** Gives a sign of life, for beat_ms. */
  beat(): void;
  /** Says what the permit has really cost, by unit; the last word counts. */
  settle(costs: Record<string, number>): void;
  /** Resolves when the permit was given back, or after ten seconds. */
  release(): Promise<void>;
  /** Releases, and fails with Lost if the permit was lost. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Waits for a permit. Fails with Refused if there is none, and with the reason of signal once that
 * ends the wait.
 */
export declare function hold(name: string, limit?: number, terms?: Terms & { signal?: AbortSignal }): Promise<Lease>;
/** The same for one permit of each of several limits, narrow ones first: all or none. */
export declare function hold(all: Limit[], limit?: undefined, terms?: HoldTerms & { signal?: AbortSignal }): Promise<Lease>;

/**
 * Pauses a semaphore for all programs: nobody is granted for so many milliseconds. A longer pause is not
 * shortened. Fails with Refused.
 */
export declare function cooldown(name: string, ms: number, terms?: { label?: string; pid?: number }): Promise<void>;
