/** An EventSource that tests speak through. */

export class FakeEventSource extends EventTarget {
  static readonly CLOSED = 2;
  static all: FakeEventSource[] = [];
  readyState = 1;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;

  constructor(readonly url: string) {
    super();
    FakeEventSource.all.push(this);
  }

  /** The one that is open now. */
  static get current(): FakeEventSource | undefined {
    return FakeEventSource.all.findLast((each) => each.readyState !== 2);
  }

  /** Sends a message. */
  emit(kind: string, data: unknown = {}): void {
    this.dispatchEvent(new MessageEvent(kind, { data: JSON.stringify(data) }));
  }

  /** Breaks; for good unless said otherwise. */
  fail(forGood = true): void {
    if (forGood) this.readyState = 2;
    this.onerror?.();
  }

  close(): void {
    this.readyState = 2;
  }
}
