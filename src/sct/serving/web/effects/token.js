// Access token from the URL that `sct serve` prints; kept in session storage and sent as a header only.

export function readToken() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const token = fields.get("token");
  if (token) {
    sessionStorage.setItem("token", token);
    fields.delete("token");
    history.replaceState(null, "", fields.size > 0 ? `#${fields}` : location.pathname);
  }
  return sessionStorage.getItem("token");
}
