// The token that sct serve puts into the address it prints; it stays in this tab and leaves it only as a header.

export function readToken() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const given = fields.get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    fields.delete("token");
    history.replaceState(null, "", fields.size > 0 ? `#${fields}` : location.pathname);
  }
  return sessionStorage.getItem("token");
}
