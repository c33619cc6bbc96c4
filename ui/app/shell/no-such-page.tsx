/** For an address that leads nowhere. */
export const NoSuchPage = () => (
  <section class="notice">
    <h1>No such page</h1>
    <p>The address leads nowhere; it may be cut off.</p>
    <a class="button" href="/">
      Home
    </a>
  </section>
);
