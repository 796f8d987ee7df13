
(() => {
  const main = document.querySelector("main");
  const state = document.querySelector("[role=status]");
  // Changes only what differs, so that selections and scroll positions stay.
  const patch = (old, next) => {
    if (old.childNodes.length !== next.childNodes.length) {
      old.replaceChildren(...next.childNodes);
      return;
    }
    [...old.childNodes].forEach((child, at) => {
      const other = next.childNodes[at];
      if (child.nodeName !== other.nodeName) {
        child.replaceWith(other.cloneNode(true));
      } else if (child.nodeType === Node.TEXT_NODE) {
        if (child.data !== other.data) child.data = other.data;
      } else {
        if (child.className !== other.className) child.className = other.className;
        patch(child, other);
      }
    });
  };
  const open = () => {
    const events = new EventSource(location.pathname.replace(/\/?$/, "/events"));
    events.onmessage = ({ data }) => {
      patch(main, new DOMParser().parseFromString(data, "text/html").body);
      state.textContent = "live";
    };
    events.onerror = () => {
      state.textContent = "no live figures, trying again";
      // The browser itself does not try again after a refusal.
      if (events.readyState === EventSource.CLOSED) setTimeout(open, 5000);
    };
  };
  open();
})();
