/** The places of hosts in columns: a host keeps its place, and new ones come last. */
export class HostIndex {
  readonly ids: string[] = [];
  readonly identities: string[] = [];
  readonly #places = new Map<string, number>();
  #order = new Uint32Array();
  #ranks = new Float64Array();

  placeOf(id: string): number | undefined {
    return this.#places.get(id);
  }

  /** Returns the place of a new host. */
  add(id: string, identity: string): number {
    const place = this.ids.push(id) - 1;
    this.#places.set(id, place);
    this.identities.push(identity);
    return place;
  }

  /** Returns an index of the hosts at some places, in their order. */
  pick(places: Uint32Array): HostIndex {
    const picked = new HostIndex();
    for (const place of places)
      picked.add(this.ids[place] as string, this.identities[place] as string);
    return picked;
  }

  /** Returns an index whose hosts after the first `count` are these: this one, where it has the same or no hosts from there on. */
  extend(count: number, hosts: readonly (readonly [id: string, identity: string])[]): HostIndex {
    const isAt = ([id]: readonly [string, string], nth: number) =>
      count + nth < this.ids.length ? this.ids[count + nth] === id : !this.#places.has(id);
    const index = hosts.every(isAt)
      ? this
      : this.pick(Uint32Array.from({ length: count }, (_, place) => place));
    for (const [id, identity] of hosts.slice(index.ids.length - count)) index.add(id, identity);
    return index;
  }

  /** Returns the places in the order of identities. */
  order(): Uint32Array {
    const count = this.ids.length;
    if (this.#order.length < count) {
      const sorted = [
        ...this.#order,
        ...Array.from({ length: count - this.#order.length }, (_, at) => this.#order.length + at),
      ];
      const { identities } = this;
      // The new ones come last, so that the sort merges two runs.
      sorted.sort((a, b) => compareBytes(identities[a] as string, identities[b] as string));
      this.#order = Uint32Array.from(sorted);
    }
    return this.#order;
  }

  /** Returns the rank of each place in the order of identities. */
  ranks(): Float64Array {
    const order = this.order();
    if (this.#ranks.length < order.length) {
      this.#ranks = new Float64Array(order.length);
      for (const [rank, place] of order.entries()) this.#ranks[place] = rank;
    }
    return this.#ranks;
  }

  /** Returns the rank of an identity; between two ranks for one that no host has. */
  rankOf(identity: string): number {
    const through = this.through(identity);
    const last = this.identities[this.order()[through - 1] as number];
    return last === identity ? through - 1 : through - 0.5;
  }

  /** Returns the number of hosts whose identity comes before a text, or is it. */
  through(text: string): number {
    const order = this.order();
    let from = 0;
    let until = order.length;
    while (from < until) {
      const middle = (from + until) >> 1;
      if (compareBytes(this.identities[order[middle] as number] as string, text) <= 0)
        from = middle + 1;
      else until = middle;
    }
    return from;
  }
}

/** The order of texts in the database: by bytes. */
const compareBytes = (a: string, b: string) => {
  if (a === b) return 0;
  for (let at = 0; at < a.length && at < b.length; at++) {
    const one = a.charCodeAt(at);
    const other = b.charCodeAt(at);
    // A surrogate is of a character with more bytes than any other unit.
    if (one !== other)
      return (one >= 0xd800 && one < 0xe000) === (other >= 0xd800 && other < 0xe000)
        ? one - other
        : one >= 0xd800 && one < 0xe000
          ? 1
          : -1;
  }
  return a.length - b.length;
};
