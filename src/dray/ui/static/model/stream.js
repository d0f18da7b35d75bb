/**
 * Receives the state and its changes, and notices when the server is gone.
 */

/** @typedef {import("./fleet.js").Fleet} Fleet */
/** @typedef {import("./server.js").Server} Server */
/** @typedef {"connecting" | "live" | "lost"} Connection */

/** Times without an event after which the server is asked whether it is there, in milliseconds. */
const SILENCE = 40_000;
const RETRY = [500, 1000, 2000, 4000];

export class LiveStream extends EventTarget {
  /** @type {Connection} */
  connection = "connecting";
  /** @type {number | null} */
  lostAt = null;
  /** @type {EventSource | null} */
  #source = null;
  #failures = 0;
  #retry = 0;
  #watch = 0;
  #heard = 0;

  /**
   * @param {Server} server
   * @param {Fleet} fleet
   */
  constructor(server, fleet) {
    super();
    this.server = server;
    this.fleet = fleet;
  }

  start() {
    this.stop();
    this.#open();
    this.#watch = setInterval(() => this.#look(), SILENCE / 4);
  }

  stop() {
    clearInterval(this.#watch);
    clearTimeout(this.#retry);
    this.#retry = 0;
    this.#source?.close();
    this.#source = null;
  }

  #open() {
    const source = new EventSource(this.server.address("stream"));
    this.#source = source;
    this.#heard = performance.now();
    source.addEventListener("open", () => this.#hear());
    source.addEventListener("alive", () => this.#hear());
    source.addEventListener("snapshot", (event) => {
      this.#hear();
      this.fleet.load(JSON.parse(event.data));
    });
    source.addEventListener("change", (event) => {
      this.#hear();
      this.fleet.apply(JSON.parse(event.data));
    });
    source.addEventListener("error", () => this.#fail(source));
  }

  #hear() {
    this.#heard = performance.now();
    this.#failures = 0;
    this.#tell("live");
  }

  /** @param {EventSource} source */
  #fail(source) {
    if (source !== this.#source) {
      return;
    }
    this.#tell("lost");
    // A browser gives up for good if the answer is no stream, such as that of a proxy without its server; and where it
    // does not, its own pause of some seconds is longer than needed.
    source.close();
    this.#retry ||= setTimeout(() => this.#again(), RETRY[Math.min(this.#failures, RETRY.length - 1)]);
    this.#failures += 1;
  }

  async #again() {
    this.#retry = 0;
    try {
      // Whether the session still holds is said by nobody but this: a stream does not tell its status.
      await this.server.get("session");
    } catch (error) {
      if (this.#source && /** @type {{status?: number}} */ (error).status !== 401) {
        this.#retry ||= setTimeout(() => this.#again(), RETRY[Math.min(this.#failures, RETRY.length - 1)]);
        this.#failures += 1;
      }
      return;
    }
    if (this.#source) {
      this.#open();
    }
  }

  async #look() {
    const source = this.#source;
    if (this.connection !== "live" || !source || performance.now() - this.#heard < SILENCE) {
      return;
    }
    try {
      await this.server.get("session", {}, AbortSignal.timeout(SILENCE / 4));
      this.#heard = performance.now();
    } catch {
      this.#fail(source);
    }
  }

  /** @param {Connection} connection */
  #tell(connection) {
    if (connection !== this.connection) {
      this.connection = connection;
      this.lostAt = connection === "lost" ? Date.now() : null;
      this.dispatchEvent(new Event("connection"));
    }
  }
}
