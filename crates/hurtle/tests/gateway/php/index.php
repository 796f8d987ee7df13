<?php
// The front controller of the application that the tests serve.
header('Content-Type: text/plain');
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
switch ($path) {
    case '/':
        echo "home";
        break;
    case '/form':
        echo $_SERVER['REQUEST_METHOD'], ' ', $_POST['name'], ' ', $_GET['q'] ?? '';
        break;
    case '/upload':
        $file = $_FILES['file'];
        echo $file['name'], ' ', $file['size'], ' ', hash_file('sha256', $file['tmp_name']);
        break;
    case '/raw':
        $hash = hash_init('sha256');
        hash_update_stream($hash, fopen('php://input', 'r'));
        echo hash_final($hash);
        break;
    case '/fields':
        http_response_code(201);
        header('X-Powered-By: tests');
        setcookie('a', '1');
        setcookie('b', '2');
        echo getenv('HTTP_PROXY') === false ? 'no proxy' : 'a proxy', ' ', $_SERVER['HTTP_X_ASKED'];
        break;
    case '/redirect':
        header('Location: /there');
        break;
    case '/flush':
        echo 'one';
        flush();
        // Until the test has seen that.
        for ($i = 0; $i < 5000 && !file_exists(__DIR__ . '/../go'); $i++) {
            usleep(1000);
            clearstatcache();
        }
        echo 'two';
        break;
    case '/big':
        for ($i = 0; $i < 8192; $i++) {
            echo str_repeat(chr(97 + $i % 26), 1024);
        }
        break;
    case '/dies':
        echo 'part';
        flush();
        exec('kill -9 ' . getmypid());
        break;
    case '/dies-early':
        exec('kill -9 ' . getmypid());
        break;
    case '/slow':
        sleep(5);
        echo 'late';
        break;
    case '/complains':
        error_log('a complaint of PHP');
        echo 'done';
        break;
    case '/accel':
        header('X-Accel-Redirect: ' . $_GET['name']);
        header('Content-Type: application/pdf');
        header('Content-Disposition: attachment');
        header('X-Other: 1');
        setcookie('a', '1');
        echo 'not this';
        break;
    case '/sendfile':
        header('X-Sendfile: ' . $_SERVER['DOCUMENT_ROOT'] . '/../private/' . $_GET['name']);
        break;
    case '/pid':
        echo getmypid();
        break;
    default:
        http_response_code(404);
        echo 'no page ', $path;
}
