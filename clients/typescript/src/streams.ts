// Server-sent events: a parser that knows where to resume, and the text that a stream builds.

export interface ArtiwayEvent {
  id: string;
  name: string;
  data: Record<string, unknown>;
}

export const TASK_ENDS: ReadonlySet<string> = new Set(["settled"]);
export const TEXT_ENDS: ReadonlySet<string> = new Set(["done", "error", "cancelled"]);

/** Takes pieces of the answer and makes events. `lastId` is the `Last-Event-ID` of the next connection. */
export class EventParser {
  retrySeconds = 1;
  #rest = "";
  #id: string | undefined;
  #name = "message";
  #data: string[] = [];

  constructor(public lastId?: string) {}

  /** A half frame of a broken connection is dropped: the next connection sends the event whole. */
  reconnect(): void {
    this.#rest = "";
    this.#start();
  }

  feed(piece: string): ArtiwayEvent[] {
    const lines = (this.#rest + piece).split(/\r\n|\n/);
    this.#rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.#take(line));
  }

  #start(): void {
    this.#id = undefined;
    this.#name = "message";
    this.#data = [];
  }

  #take(line: string): ArtiwayEvent[] {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "id") this.#id = value;
    else if (name === "event") this.#name = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "retry" && /^\d+$/.test(value)) this.retrySeconds = Number(value) / 1000;
    return [];
  }

  #dispatch(): ArtiwayEvent[] {
    const events: ArtiwayEvent[] = [];
    if (this.#data.length > 0) {
      if (this.#id !== undefined) this.lastId = this.#id;
      const data = JSON.parse(this.#data.join("\n")) as Record<string, unknown>;
      events.push({ id: this.lastId ?? "", name: this.#name, data });
    }
    this.#start();
    return events;
  }
}

/** Joins the events of a generation to its text. Offsets count Unicode characters, not UTF-16 units. */
export class TextBuilder {
  #characters: string[] = [];

  get text(): string {
    return this.#characters.join("");
  }

  /** What is new. */
  take(event: ArtiwayEvent): string {
    if (event.name === "restart") this.#characters = [];
    if (event.name !== "token" && event.name !== "token_batch") return "";
    const offset = Number(event.data["offset"]);
    const missing = offset - this.#characters.length;
    if (missing > 0) throw new Error(`${missing} characters are missing at ${this.#characters.length}`);
    const added = [...String(event.data["text"])].slice(this.#characters.length - offset);
    this.#characters.push(...added);
    return added.join("");
  }
}
